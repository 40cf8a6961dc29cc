from __future__ import annotations

from pathlib import Path

import pytest

from .blocks import FILES, Block, blocks, can_run, is_python, run, run_all

WITH_CODE = [file for file in FILES if file.exists() and any(is_python(b) for b in blocks(file))]


@pytest.mark.parametrize("file", WITH_CODE, ids=lambda file: file.name)
def test_every_python_block_of_a_document_runs_and_shows_its_true_output(file: Path) -> None:
    run_all(file)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_document_exists_and_prompts_stand_in_python_blocks_only(file: Path) -> None:
    assert [b.line for b in blocks(file) if ">>> " in b.code and not is_python(b)] == []


def test_the_readme_and_the_guides_have_code_to_run() -> None:
    names = {file.name for file in WITH_CODE}
    assert names >= {"README.md", "CONTRIBUTING.md", "quickstart.md", "semantics.md", "how-to-add-an-engine.md"}


def test_wrong_output_in_a_block_fails() -> None:
    with pytest.raises(AssertionError, match="Expected:\n    3\nGot:\n    2"):
        run(Block(Path("some.md"), 1, "python", ">>> 1 + 1\n3\n"), {})


def test_blocks_of_a_file_share_names(tmp_path: Path) -> None:
    file = tmp_path / "some.md"
    file.write_text("```python\nx = 1\n```\n\n```python\n>>> y = x + 1\n>>> y\n2\n```\n\n```text\nno code\n```\n")
    assert run_all(file)["y"] == 2


def test_a_block_that_names_a_library_runs_where_the_library_is() -> None:
    assert can_run(Block(Path("some.md"), 1, "python numpy", ""))
    assert not can_run(Block(Path("some.md"), 1, "python no_such_library", ""))
    assert not can_run(Block(Path("some.md"), 1, "text", ""))
