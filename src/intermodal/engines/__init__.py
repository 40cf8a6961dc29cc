"""The engines that intermodal carries itself, one file or folder each. They know the contract and the op table, nothing above."""
