"""What the SDK and the stores get wrong for those who use them as they come, and the test that holds against each."""

import base64
import pickle
import zlib
from pathlib import Path

import pytest
from s3_support import collect, is_media, run
from servers.fault_proxy import answer
from servers.index import missing_tests

from stead_s3 import S3Environment

TRAPS = {
    "a closed stream of the SDK keeps its connection, and the eleventh hangs": (
        "test_streams.py::test_two_hundred_abandoned_streams",
        "test_streams.py::test_more_streams_than_connections",
    ),
    "an object that shrank while it was read comes filled up with zeros": ("test_streams.py::test_changed_while_cut",),
    "ranges read while an object is replaced mix its versions": (
        "test_streams.py::test_parallel_ranges_are_one_version",
        "test_streams.py::test_replaced_while_read",
    ),
    "a range of no bytes at 0 is the whole object": ("test_errors.py::test_range_past_the_end",),
    "a key is cut at ?versionId=": ("test_keys.py::test_keys_are_literal",),
    "a key that ends in a slash is asked for without it": ("test_keys.py::test_keys_that_no_path_reaches",),
    "two layers repeat, and their tries multiply": (
        "test_errors.py::test_throttled_for_good",
        "test_interrupted.py::TestInterrupted::test_progress_resets_the_tries",
    ),
    "a stream is compared with no checksum": ("test_interrupted.py::TestInterrupted::test_damaged_body",),
    "a store sends the sum of the whole with a range": ("test_traps.py::test_sum_of_the_whole_with_a_range",),
    "a store takes no checksums": ("test_writes.py::test_without_checksums",),
    "a cancelled upload leaves its parts": (
        "test_writes.py::test_cancelled_large_write_leaves_no_part",
        "test_writes.py::test_cancelled_twice_leaves_no_part",
    ),
    "listings are remembered for ever": ("test_keys.py::test_nothing_is_cached",),
    "an instance belongs to a loop that is gone": ("test_options.py::test_one_for_each_loop",),
    "a fork of a process shares connections": ("test_options.py::test_a_fork_is_refused",),
    "a pickle has the secret in it": ("test_traps.py::test_no_pickle_of_an_environment",),
    "a session that is left open is warned of": ("test_options.py::test_no_warning_is_left",),
    "the SDK's import blocks the loop for a second": ("test_options.py::test_start_does_not_block_the_loop",),
}
ERRORS = {
    "missing key": ("test_errors.py::test_missing_key",),
    "missing bucket": ("test_errors.py::test_missing_bucket", "test_errors.py::test_bucket_lost_later"),
    "prefix only": ("test_errors.py::test_prefix_is_directory",),
    "bucket as path": ("test_errors.py::test_prefix_is_directory",),
    "empty object, whole and streamed": ("test_errors.py::test_empty_object",),
    "empty object in ranges, or a start past the end": (
        "test_errors.py::test_empty_object",
        "test_errors.py::test_range_past_the_end",
    ),
    "start and end 0": ("test_errors.py::test_range_past_the_end",),
    "wrong secret, read-only, anonymous": (
        "test_errors.py::test_wrong_credentials",
        "test_errors.py::test_read_only_identity",
        "test_errors.py::test_refused_key_is_not_missing",
    ),
    "no credentials": ("test_errors.py::test_no_credentials",),
    "endpoint refused": ("test_errors.py::test_endpoint_refused",),
    "create-only on what exists": ("test_errors.py::test_create_only",),
    "If-Match failed": ("test_errors.py::test_if_version_failed",),
    "429 and 503": ("test_errors.py::test_throttled_twice", "test_errors.py::test_throttled_for_good"),
    "400 with invalid in its text": ("test_errors.py::test_bad_request",),
    "stalled body": (
        "test_interrupted.py::TestInterrupted::test_stalled_body",
        "test_interrupted.py::TestInterrupted::test_stalled_for_good",
    ),
    "cut body": (
        "test_interrupted.py::TestInterrupted::test_cut_body_is_resumed",
        "test_interrupted.py::TestInterrupted::test_cut_again_and_again",
    ),
}


@pytest.mark.parametrize("index", [TRAPS, ERRORS], ids=["traps", "errors"])
def test_each_has_its_test(index):
    """Every trap and every kind of error names tests that exist."""
    assert missing_tests(index, Path(__file__).parent) == []


def test_sum_of_the_whole_with_a_range(near, proxy):
    """A store that sends the checksum of the whole object with a part of it does not break the part."""
    data = bytes(range(256)) * 1000
    whole = base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()

    async def use(env):
        info = await env.write_file("a", data)
        part = answer(
            206,
            data[100:300],
            Content_Range=f"bytes 100-299/{len(data)}",
            ETag=f'"{info.version}"',
            x_amz_checksum_crc32=whole,
        )
        with proxy.fault("answer", response=part, matches=lambda r: is_media(r) and "range" in r.headers) as fault:
            assert await collect(env.read_file_stream("a", offset=100, length=200)) == data[100:300]
        assert fault.hits == 1

    run(near, use)


def test_no_pickle_of_an_environment(place):
    """An environment holds connections and a secret: it is not pickled, and says why."""
    with pytest.raises(TypeError, match="connections and secrets"):
        pickle.dumps(S3Environment(**place))
