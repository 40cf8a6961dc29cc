"""Random numbers, as users import them."""
