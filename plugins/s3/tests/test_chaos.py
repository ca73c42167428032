"""The backend behind a network that breaks a third of all requests."""

from s3_support import refusal, run
from servers.chaos import survive


def test_five_hundred_operations(near, proxy, scale):
    """500 operations through the fault proxy lose nothing and report nothing wrong as a success."""
    answers = [refusal(503, "SlowDown"), refusal(500, "InternalError"), refusal(429, "TooManyRequests")]
    operations = max(200, int(500 * scale))
    outcomes = run(near, lambda env: survive(env, proxy, answers, operations=operations))
    assert sum(outcomes.values()) == operations // 8 * 8
    assert outcomes["succeeded"] > 0.9 * operations
