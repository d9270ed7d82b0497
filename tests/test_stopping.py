"""A signal stops a job at once, or between two steps where that is asked for; handlers are restored."""

import os
import signal
import threading

import pytest

from pivotal.stopping import SIGNALS, Interrupted, exit_code, saying, signals

pytestmark = pytest.mark.usefixtures("hangups")

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
EACH = pytest.mark.parametrize("signum", SIGNALS)


def send(signum: int) -> None:
    os.kill(os.getpid(), signum)


@EACH
def test_outside_of_a_deferred_part_a_signal_stops_at_once(signum):
    with pytest.raises(Interrupted) as stopped, signals():
        send(signum)
        raise AssertionError("it went on")
    assert exit_code(stopped.value) == CODES[signum]


@EACH
def test_a_deferred_stop_is_met_where_it_is_asked_for(signum, capfd):
    steps = []
    with pytest.raises(Interrupted) as stopped, signals() as stop, stop.deferred():
        for step in range(3):
            if step == 1:
                send(signum)
            steps.append(step)
            stop.check()
    assert steps == [0, 1] and exit_code(stopped.value) == CODES[signum]
    assert "Stopping at the next safe place" in capfd.readouterr().err


def test_a_request_that_nothing_met_is_met_at_the_end():
    finished = False
    with pytest.raises(Interrupted), signals() as stop, stop.deferred():
        send(signal.SIGTERM)
        finished = stop.requested
    assert finished


def test_a_second_signal_stops_at_once():
    reached = []
    with pytest.raises(Interrupted) as stopped, signals() as stop, stop.deferred():
        send(signal.SIGINT)
        reached.append("after the first")
        send(signal.SIGTERM)
        reached.append("after the second")
    assert reached == ["after the first"] and exit_code(stopped.value) == 143


def test_handlers_are_restored_and_ignored_signals_stay_ignored():
    before = {signum: signal.getsignal(signum) for signum in SIGNALS}
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with signals():
            send(signal.SIGHUP)
            with signals():
                pass
            assert signal.getsignal(signal.SIGTERM) is not before[signal.SIGTERM]
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, ignored)
    assert {signum: signal.getsignal(signum) for signum in SIGNALS} == before


def test_another_thread_leaves_the_handlers_alone():
    seen = []

    def work() -> None:
        with signals() as stop, stop.deferred():
            seen.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_plain_keyboard_interrupt_counts_as_ctrl_c():
    said = saying(KeyboardInterrupt(), "saved")
    assert str(said) == "saved" and exit_code(said) == 130
