"""The backend behind a network that breaks a third of all requests."""

from gcs_support import refusal, run
from servers.chaos import survive


def test_five_hundred_operations(near, proxy):
    """500 operations through the fault proxy lose nothing and report nothing wrong as a success."""
    answers = [refusal(503, "later"), refusal(500, "backend error"), refusal(429, "slower", "rateLimitExceeded")]
    outcomes = run(near, lambda env: survive(env, proxy, answers, operations=500))
    assert sum(outcomes.values()) == 500
    assert outcomes["succeeded"] > 450
