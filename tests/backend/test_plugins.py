"""Plugins as users have them: installed distributions, each program in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from intermodal.backend import registry

from .plugins import GOOD, Site

LIST = "from intermodal.backend import entries\nfor e in entries(load=True): print(e)\n"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_an_installed_plugin_is_found_and_loaded_on_first_use(site: Site) -> None:
    site.install("fine-engine", "fine = fine_module:FineBackend", fine_module=GOOD.format(name="Fine", engine="fine"))
    out = site.run(
        "import sys, intermodal as im\n"
        "print('fine' in im.backend.engines(), 'fine_module' in sys.modules)\n"
        "print((im.ones(2, device='fine') + 1).tolist(), 'fine_module' in sys.modules)\n"
        "print([e for e in im.backend.entries() if e.name == 'fine'])\n"
    )
    assert out.splitlines()[:2] == ["True False", "[2.0, 2.0] True"]
    assert "EngineInfo(name='fine', status='loaded', origin='fine-engine', target='fine_module:FineBackend'" in out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("raise RuntimeError('no driver')", "RuntimeError: no driver"),
        ("import sys; sys.exit('goodbye')", "SystemExit: goodbye"),
        ("def BadBackend(): raise OSError('the card is gone')", "OSError: the card is gone"),
        ("x = 1", "AttributeError: module 'bad_module' has no attribute 'BadBackend'"),
        ("BadBackend = dict", "it makes a dict, which is not derived from intermodal.Backend"),
        (GOOD.format(name="Bad", engine="other"), "its class calls the engine 'other'"),
        ("def", "SyntaxError"),
    ],
)
def test_a_broken_plugin_is_listed_with_its_reason_and_stops_nothing(site: Site, text: str, reason: str) -> None:
    site.install("bad-engine", "bad = bad_module:BadBackend", bad_module=text)
    out = site.run(
        "import intermodal as im\n"
        "assert im.ones(2).tolist() == [1.0, 1.0]\n"
        "assert 'bad' in im.backend.engines()\n"
        "bad = next(e for e in im.backend.entries(load=True) if e.name == 'bad')\n"
        "print(bad.status, '|', bad.reason, '|', bad.install)\n"
        "for _ in range(2):\n"
        "    try: im.ones(2, device='bad')\n"
        "    except im.EngineUnavailableError as error: print(error, '|', type(error.__cause__).__name__)\n"
    )
    first, *asked = out.splitlines()
    assert first.startswith("unavailable | ")
    assert reason in first
    assert first.endswith("| pip install --upgrade bad-engine")
    assert len(asked) == 2
    for line in asked:
        assert reason in line
        assert "Try pip install --upgrade bad-engine, then im.backend.refresh()." in line


def test_an_entry_point_with_extras_names_them_in_the_install(site: Site) -> None:
    site.install("bad-engine", "bad = no_module:Bad [gpu]")
    assert "pip install --upgrade 'bad-engine[gpu]'" in site.run(LIST)


def test_a_plugin_with_a_name_of_ours_is_hidden_with_one_warning(site: Site) -> None:
    site.install("copycat", "numpy = copy_module:NumpyBackend", copy_module="raise SystemExit('never imported')")
    out = site.run("import intermodal as im\n" + LIST + LIST + "print(type(im.backend.backend_of('numpy')).__module__)")
    assert (
        out.count("PluginWarning: the engine 'numpy' of copycat is hidden by the one of intermodal. Uninstall one of them.") == 1
    )
    assert "intermodal.engines.numpy.backend" in out
    assert "never imported" not in out
    assert "status='unavailable', origin='copycat'" in out


def test_of_two_plugins_with_one_name_the_first_distribution_by_name_wins(site: Site) -> None:
    for distribution in ("Zeta", "alpha-engine", "beta"):
        module = distribution.replace("-", "_")
        site.install(distribution, f"twin = {module}:TwinBackend", **{module: GOOD.format(name="Twin", engine="twin")})
    out = site.run("from intermodal.backend import backend_of\nprint(backend_of('twin').origin)")
    assert out.splitlines()[0] == "alpha_engine"
    assert "'twin' of beta is hidden by the one of alpha-engine" in out
    assert "'twin' of Zeta is hidden by the one of alpha-engine" in out
    assert out.count("PluginWarning") == 2


def test_the_program_outvotes_a_plugin(site: Site) -> None:
    site.install("twin-engine", "twin = twin_module:TwinBackend", twin_module=GOOD.format(name="Twin", engine="twin"))
    program = GOOD.format(name="Own", engine="twin") + "im.backend.register('twin', OwnBackend)\n"
    assert site.run(program + "print(im.backend.backend_of('twin').origin)").split() == ["__main__"]


def test_unreadable_entry_points_cost_only_their_own_distribution(site: Site) -> None:
    site.install("garbled", "this line has no equals sign\nnor = has : this")
    site.install("fine-engine", "fine = fine_module:FineBackend", fine_module=GOOD.format(name="Fine", engine="fine"))
    out = site.run("import intermodal as im\nprint(im.ones(1, device='fine').device)\n" + LIST)
    assert out.splitlines()[0] == "fine:cpu"
    assert "EngineInfo(name='garbled', status='unavailable'" in out
    assert "the entry points of garbled cannot be read" in out


def test_a_name_that_no_device_can_have_is_listed_as_unavailable(site: Site) -> None:
    site.install("loud", "LOUD = loud_module:Loud")
    out = site.run(LIST)
    assert "EngineInfo(name='LOUD', status='unavailable', origin='loud'" in out
    assert "no name of an engine" in out


def test_the_switch_leaves_plugins_out_and_says_so(site: Site) -> None:
    site.install("fine-engine", "fine = fine_module:FineBackend", fine_module=GOOD.format(name="Fine", engine="fine"))
    program = (
        "import sys, intermodal as im\n"
        "print(im.backend.engines(), 'importlib.metadata' in sys.modules)\n"
        "try: im.ones(2, device='fine')\n"
        "except im.DeviceError as error: print(error)\n"
    )
    out = site.run(program, INTERMODAL_DISABLE_PLUGINS="1")
    assert out.startswith(f"{sorted(registry._OWN)} False\n")
    assert "Plugins are left out, for INTERMODAL_DISABLE_PLUGINS is set." in out
    assert "'fine'" in site.run(program, INTERMODAL_DISABLE_PLUGINS="0").splitlines()[0]


def test_refresh_finds_what_was_installed_and_mended_since(site: Site) -> None:
    site.install("bad-engine", "bad = bad_module:BadBackend", bad_module="import no_such_library")
    program = (
        "import pathlib, intermodal as im\n"
        "def state(name): return [e.status for e in im.backend.entries(load=True) if e.name == name]\n"
        "print(state('bad'), state('late'))\n"
        f"site = pathlib.Path({str(site.folder)!r})\n"
        f"(site / 'bad_module.py').write_text({GOOD.format(name='Bad', engine='bad')!r})\n"
        "info = site / 'late-1.0.dist-info'; info.mkdir()\n"
        "(info / 'METADATA').write_text('Name: late\\n')\n"
        "(info / 'entry_points.txt').write_text('[intermodal.engines]\\nlate = late_module:Late\\n')\n"
        "print(state('bad'), state('late'))\n"
        "im.backend.refresh()\n"
        "print(state('bad'), state('late'))\n"
    )
    assert site.run(program, "-B").splitlines() == ["['unavailable'] []", "['unavailable'] []", "['loaded'] ['unavailable']"]
