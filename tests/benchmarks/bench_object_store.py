"""Object stores: stead's streams against the SDKs' own, interleaved in one run, as ratios.

    python tests/benchmarks/bench_object_store.py [s3|gcs ...]

S3 is SeaweedFS, GCS is fake-gcs-server, both on this machine. STEAD_SCALE=1 is an object of 512 MiB; the default is a
tenth. Each method of a round reads the same object, in an order that changes from round to round, since a machine that is
busy is so for minutes. CPU seconds are of this process; memory is the kernel's peak above what was resident before.
"""

import asyncio
import os
import random
import resource
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, aclosing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from servers.fault_proxy import FaultProxy
from servers.gcs import GcsServer, fake_gcs
from servers.s3 import S3Server, seaweedfs

from stead import Environment
from stead_gcs import GcsEnvironment
from stead_s3 import S3Environment

SCALE = float(os.environ.get("STEAD_SCALE", "0.1"))
MIB = 1 << 20
SIZE = max(16, int(512 * SCALE)) * MIB
ROUNDS = 7
SMALL = 200

Read = Callable[[], Awaitable[int]]


def cpu_seconds() -> float:
    """What this process has used so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mib() -> float:
    """The peak resident size since the last reset."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def reset_peak() -> float:
    """Starts a new peak, and returns where it starts."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_mib()


def show(name: str, value: str) -> None:
    """One line of the report."""
    print(f"  {name:<44} {value}", flush=True)


async def source(size: int) -> AsyncIterator[bytes]:
    """Content that does not compress."""
    block = os.urandom(MIB)
    for _ in range(size // MIB):
        yield block


async def stream(env: Environment) -> int:
    """Reads the large object through stead."""
    async with aclosing(env.read_file_stream("large")) as chunks:
        return sum([len(chunk) async for chunk in chunks])


async def compare(methods: dict[str, Read]) -> dict[str, float]:
    """Reads the large object by every method in every round.

    Returns:
        How many times as fast as each method stead is: the median over the rounds, since two reads of one round met
        the same machine.
    """
    speeds: dict[str, list[float]] = {name: [] for name in methods}
    used: dict[str, list[float]] = {name: [] for name in methods}
    peaks: dict[str, list[float]] = {name: [] for name in methods}
    for turn in range(ROUNDS + 1):
        order = list(methods)
        random.Random(turn).shuffle(order)
        for name in order:
            base, cpu, begun = reset_peak(), cpu_seconds(), time.perf_counter()
            seen = await methods[name]()
            seconds = time.perf_counter() - begun
            if seen != SIZE:
                raise RuntimeError(f"{name} read {seen} of {SIZE} bytes")
            if turn:  # the first round warms up
                speeds[name].append(SIZE / seconds / 1e6)
                used[name].append((cpu_seconds() - cpu) / SIZE * 1e9)
                peaks[name].append(peak_mib() - base)
    ours, ratios = speeds["stead"], {}
    for name, values in speeds.items():
        ratio = ratios[name] = statistics.median(mine / theirs for mine, theirs in zip(ours, values, strict=True))
        told = f"{statistics.median(values):7.0f} MB/s ({min(values):.0f} to {max(values):.0f}), "
        told += f"{statistics.median(used[name]):.2f} CPU s/GB, +{max(peaks[name]):.1f} MB"
        show(name, told if name == "stead" else f"{told}; stead is {ratio:.2f} x as fast")
    return ratios


async def small_calls(env: Environment, proxy: FaultProxy, plain: dict[str, Callable[[], Awaitable[object]]]) -> None:
    """1 KB reads and writes: the requests they cost, and time against the SDK's single calls."""
    data = b"x" * 1024
    await env.write_file("small/a", data)
    ours: dict[str, Callable[[], Awaitable[object]]] = {
        "read_file of 1 KB": lambda: env.read_file("small/a"),
        "write_file of 1 KB": lambda: env.write_file("small/b", data),
    }
    for name, call in ours.items():
        ratios = []
        for _ in range(5):
            times = []
            for each in (call, plain[name]):
                begun = time.perf_counter()
                for _ in range(SMALL // 5):
                    await each()
                times.append(time.perf_counter() - begun)
            ratios.append(times[0] / times[1])
        proxy.requests.clear()
        await call()
        show(name, f"{len(proxy.requests)} requests, {statistics.median(ratios):.2f} x the SDK's one call")


async def writes(env: Environment) -> None:
    """A large object written from an iterator."""
    await env.write_file("warm", source(12 * MIB))
    base, cpu, begun = reset_peak(), cpu_seconds(), time.perf_counter()
    await env.write_file("large", source(SIZE))
    seconds = time.perf_counter() - begun
    told = f"{SIZE / seconds / 1e6:7.0f} MB/s, {(cpu_seconds() - cpu) / SIZE * 1e9:.2f} CPU s/GB"
    show("stead, written from an iterator", f"{told}, +{peak_mib() - base:.1f} MB")


async def bench_s3(server: S3Server, proxy: FaultProxy) -> None:
    """S3: against aiobotocore's `iter_chunks` and obstore's stream."""
    from aiobotocore.session import get_session
    from obstore.store import S3Store

    access = {"aws_access_key_id": server.access_key, "aws_secret_access_key": server.secret_key}
    obstore = S3Store(
        server.bucket,
        endpoint=server.url,
        region="us-east-1",
        access_key_id=server.access_key,
        secret_access_key=server.secret_key,
        client_options={"allow_http": True},
    )
    async with AsyncExitStack() as stack:
        env = await stack.enter_async_context(S3Environment(**server.options()))
        near = await stack.enter_async_context(S3Environment(**server.options(endpoint_url=proxy.url)))
        making = get_session().create_client("s3", endpoint_url=server.url, region_name="us-east-1", **access)
        client: Any = await stack.enter_async_context(making)
        far = get_session().create_client("s3", endpoint_url=proxy.url, region_name="us-east-1", **access)
        other: Any = await stack.enter_async_context(far)

        async def theirs() -> int:
            answer = await client.get_object(Bucket=server.bucket, Key="large")
            return sum([len(chunk) async for chunk in answer["Body"].iter_chunks(MIB)])

        async def rust() -> int:
            answer = await obstore.get_async("large")
            return sum([len(chunk) async for chunk in answer.stream()])

        async def read() -> bytes:
            answer = await other.get_object(Bucket=server.bucket, Key="small/a")
            async with answer["Body"] as body:
                return bytes(await body.read())

        await writes(env)
        found = await compare({"stead": lambda: stream(env), "aiobotocore iter_chunks": theirs, "obstore stream": rust})
        verdict(found, "aiobotocore iter_chunks", 0.85)
        verdict(found, "obstore stream", 1.0)
        data = b"x" * 1024
        plain = {
            "read_file of 1 KB": read,
            "write_file of 1 KB": lambda: other.put_object(Bucket=server.bucket, Key="small/b", Body=data),
        }
        await small_calls(near, proxy, plain)


async def bench_gcs(server: GcsServer, proxy: FaultProxy) -> None:
    """GCS: against the stream of gcsfs' own session."""
    import aiohttp
    from gcsfs.core import GCSFileSystem

    filesystem = GCSFileSystem(
        token="anon", project="p", endpoint_url=server.url, asynchronous=True, skip_instance_cache=True
    )
    filesystem.session_kwargs = {"auto_decompress": False}
    session: aiohttp.ClientSession = await filesystem._set_session()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(session.close)
        env = await stack.enter_async_context(GcsEnvironment(**server.options()))
        near = await stack.enter_async_context(GcsEnvironment(**server.options(endpoint_url=proxy.url)))

        async def theirs() -> int:
            headers = filesystem._get_headers(None)
            async with session.get(filesystem.url(f"{server.bucket}/large"), headers=headers) as answer:
                return sum([len(chunk) async for chunk in answer.content.iter_any()])

        async def read() -> object:
            async with session.get(f"{proxy.url}/download/storage/v1/b/{server.bucket}/o/small%2Fa?alt=media") as got:
                return await got.read()

        async def write() -> object:
            url = f"{proxy.url}/upload/storage/v1/b/{server.bucket}/o?uploadType=media&name=small%2Fb"
            async with session.post(url, data=b"x" * 1024) as got:
                return await got.read()

        # In one request: the server copies an upload in parts as a whole with every part.
        await env.write_file("large", b"".join([piece async for piece in source(SIZE)]))
        found = await compare({"stead": lambda: stream(env), "gcsfs session stream": theirs})
        verdict(found, "gcsfs session stream", 0.85)
        await small_calls(near, proxy, {"read_file of 1 KB": read, "write_file of 1 KB": write})


def verdict(found: dict[str, float], other: str, least: float) -> None:
    """Says whether stead is as fast as it is to be."""
    ratio = found[other]
    show(f"stead / {other}", f"{ratio:.2f}, to be at least {least}: {'met' if ratio >= least else 'NOT MET'}")


def main() -> None:
    """Runs what was asked for, or everything."""
    asked = sys.argv[1:] or ["s3", "gcs"]
    with ExitStack() as stack:
        for name in asked:
            print(f"{name}: {SIZE // MIB} MiB, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
            if name == "s3":
                server = stack.enter_context(seaweedfs())
                asyncio.run(bench_s3(server, stack.enter_context(FaultProxy(server.url))))
            else:
                fake = stack.enter_context(fake_gcs())
                asyncio.run(bench_gcs(fake, stack.enter_context(FaultProxy(fake.url))))


if __name__ == "__main__":
    main()
