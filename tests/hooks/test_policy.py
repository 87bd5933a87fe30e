"""What the environment asks for, what a verdict does to a build, and Triton's knobs as chains."""

import pytest

from ptx_engine.errors import LaunchError
from ptx_engine.verdict import Status
from volta_hooks.policy import Action, Mode, action, mode_from_environment, target_from_environment
from volta_hooks.triton_knobs import chain_knob, chain_listener, chain_stages
from volta_pass.job import Options


@pytest.mark.parametrize(
    "word, mode", [("", None), ("0", None), ("OFF", None), ("1", Mode.ON), ("warn", Mode.WARN), ("Strict", Mode.STRICT)]
)
def test_modes(word, mode):
    assert mode_from_environment({"VOLTA_VALIDATE": word}) is mode


def test_an_unknown_mode_is_on_and_says_so(capsys):
    assert mode_from_environment({"VOLTA_VALIDATE": "maybe"}) is Mode.ON
    assert "'maybe'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "mode, refuted, unknown",
    [(Mode.ON, Action.RAISE, Action.WARN), (Mode.WARN, Action.WARN, Action.WARN), (Mode.STRICT, Action.RAISE, Action.RAISE)],
)
def test_what_a_verdict_does(mode, refuted, unknown):
    assert action(mode, Status.PROVED) is Action.PASS
    assert action(mode, Status.REFUTED) is refuted
    assert action(mode, Status.UNKNOWN) is unknown
    assert action(mode, Status.UNSUPPORTED) is unknown


def test_targets():
    assert target_from_environment({}) is None
    assert target_from_environment({"VOLTA_TARGET": "cuda:80"}) == ("cuda", 80)
    assert target_from_environment({"VOLTA_TARGET": "cuda:sm_89"}) == ("cuda", 89)
    for text in ("hip:gfx942", "cuda", "80", "cuda:x"):
        with pytest.raises(LaunchError, match="VOLTA_TARGET"):
            target_from_environment({"VOLTA_TARGET": text})


def test_options_from_the_environment():
    assert Options.from_environment({}) == Options()
    given = Options.from_environment({"VOLTA_SECONDS": "0", "VOLTA_CTAS": "16", "VOLTA_DECIDE": "fingerprint"})
    assert (given.seconds, given.ctas, given.decide) == (None, 16, "fingerprint")
    assert Options.from_environment({"VOLTA_CTAS": "all"}).ctas == "all"
    for wrong in ({"VOLTA_SECONDS": "soon"}, {"VOLTA_CTAS": "0"}, {"VOLTA_CTAS": "some"}, {"VOLTA_DECIDE": "guess"},
                  {"VOLTA_CTAS": "1.5"}, {"VOLTA_CTAS": "9" * 400}, {"VOLTA_JOBS": "inf"}, {"VOLTA_JOBS": "0"}, {"VOLTA_SECONDS": "nan"},
                  {"VOLTA_SECONDS": "-1"}, {"VOLTA_SECONDS": "1e400"}):  # fmt: skip
        with pytest.raises(LaunchError) as raised:
            Options.from_environment(wrong)
        assert raised.value.hint


class Knobs:
    hook = None


def test_a_knob_set_before_and_after_is_chained():
    called = []

    class Own(Knobs):
        hook = None

    knobs = Own()
    knobs.hook = lambda **facts: called.append(("first", facts))
    chain_knob(knobs, "hook", chain_listener(lambda **facts: called.append(("ours", facts))))
    knobs.hook(a=1)
    knobs.hook = lambda **facts: called.append(("second", facts))
    knobs.hook(a=2)
    knobs.hook = None
    knobs.hook(a=3)
    names = [(name, facts["a"]) for name, facts in called]
    assert names == [("first", 1), ("ours", 1), ("second", 2), ("ours", 2), ("ours", 3)]


def test_assigning_what_was_read_changes_nothing():
    """The idiom ``old = knobs.hook; knobs.hook = mine; ...; knobs.hook = old`` must not chain us to ourselves."""
    called = []

    class Own(Knobs):
        hook = None

    knobs = Own()
    chain_knob(knobs, "hook", chain_listener(lambda **facts: called.append("ours")))
    old = knobs.hook
    knobs.hook = lambda **facts: called.append("mine")
    knobs.hook = old
    knobs.hook()
    assert called == ["ours"]


def test_the_pipeline_key_is_stable_and_holds_the_users():
    def user(*stages):
        return None if stages else ("theirs", "hash")

    assert chain_stages(None)() == chain_stages(None)()
    key, hashed = chain_stages(user)()
    assert "theirs" in key and key != chain_stages(None)()[0] and hashed != chain_stages(None)()[1]


def test_the_users_stages_are_seen():
    seen = []

    def user(*stages):
        seen.append(stages)

    chain_stages(user)("backend", {"ptx": 1}, "options", "language", 80)
    chain_stages(None)("backend", {"ptx": 1}, "options", "language", 80)
    assert seen == [("backend", {"ptx": 1}, "options", "language", 80)]


@pytest.mark.parametrize(
    "variable, value",
    [
        ("VOLTA_SECONDS", "abc"),
        ("VOLTA_TARGET", "cuda:999"),
        ("VOLTA_DECIDE", "maybe"),
        ("VOLTA_CTAS", "-1"),
        ("VOLTA_CTAS", "9" * 400),
        ("VOLTA_JOBS", "9" * 400),
        ("VOLTA_CACHE_MB", "9" * 400),
        ("VOLTA_SECONDS", "9" * 400),
    ],
)
def test_a_variable_that_means_nothing_ends_the_program_unless_it_only_warns(run_program, variable, value):
    program = "import triton\nprint('went on')\n"
    settings = {"VOLTA_TARGET": "cuda:80", variable: value}
    stopped = run_program(program, VOLTA_VALIDATE="1", **settings)
    assert stopped.code == 2 and "went on" not in stopped.out and "Traceback" not in stopped.err
    assert f"error: {variable}={value!r}" in stopped.err and "help:" in stopped.err
    warned = run_program(program, VOLTA_VALIDATE="warn", **settings)
    assert warned.code == 0 and "went on" in warned.out and f"{variable}={value!r}" in warned.err


def test_a_shared_store_that_can_be_none_ends_the_program_too(run_program):
    """It went on without validation, and with no GPU into Triton's own traceback."""
    program = "import triton\nprint('went on')\n"
    settings = {"VOLTA_TARGET": "cuda:80", "VOLTA_STORE": "nosuch://bucket"}
    stopped = run_program(program, VOLTA_VALIDATE="1", **settings)
    assert stopped.code == 2 and "went on" not in stopped.out and "Traceback" not in stopped.err
    assert "error: VOLTA_STORE=nosuch://bucket: " in stopped.err and "help:" in stopped.err
    warned = run_program(program, VOLTA_VALIDATE="warn", **settings)
    assert warned.code == 0 and "went on" in warned.out and "VOLTA_STORE=nosuch://bucket" in warned.err
    assert run_program(program, VOLTA_VALIDATE="1", VOLTA_TARGET="cuda:80", VOLTA_STORE="memory://x").code == 0
