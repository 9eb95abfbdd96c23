"""What breaks in a cluster: its nodes, replicas and leaders."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

from tests.faults.grounds import ClusterStage
from tests.faults.stories import makes
from tests.faults.stories.servers import lose_block


def _on(name: str) -> dict[str, object]:
    """Return a config that places one replica on a node."""
    return {"storage": "file", "num_replicas": 1, "placement": {"tags": [name]}}


@makes(
    "node-killed", "node-killed-stream", "node-killed-consumer", "node-killed-replica",
    "node-killed-mirror",
)  # fmt: skip
async def node_killed(stage: ClusterStage) -> AsyncIterator[None]:
    alone, mirror = stage.site("node-killed-stream"), stage.site("node-killed-mirror")
    three, of_three = stage.site("node-killed-replica"), stage.site("node-killed-consumer")
    await alone.add_stream(**_on("n3"))
    await alone.publish(10)
    alone.publishing(2)
    origin = f"{mirror.stream}_ORIGIN"
    await mirror.add_stream(origin, **_on("n3"))
    await mirror.publish(10, stream=origin)
    mirror.publishing(2, stream=origin)
    await mirror.add_stream(mirror={"name": origin}, **_on("n1"))
    await three.add_stream(storage="file", num_replicas=3)
    three.publishing(4)
    await of_three.add_stream(storage="file", num_replicas=3)
    of_three.publishing(4)
    await stage.add_consumer_on(of_three, "n3")
    for site in (three, of_three):
        await stage.lead(site, "n1")
    yield
    stage.kill("n3")
    yield
    await stage.start("n3")
    for site in (alone, three, of_three, mirror):
        await site.runs()


@makes("two-killed-meta", "two-killed-stream")
async def two_killed(stage: ClusterStage) -> AsyncIterator[None]:
    site = stage.site("two-killed-stream")
    await site.add_stream(storage="file", num_replicas=3)
    await site.add_consumer()
    site.publishing(4)
    site.work()
    await stage.lead(site, "n1")
    yield
    stage.kill("n2")
    stage.kill("n3")
    yield
    await stage.start("n2")
    await stage.start("n3")
    await site.runs()


@makes("five-stream", "five-consumer")
async def five(stage: ClusterStage) -> AsyncIterator[None]:
    site = stage.site("five-stream")
    await site.add_stream(storage="file", num_replicas=3)
    await site.add_consumer()
    site.publishing(4)
    site.work()
    cluster = (await site.api(f"STREAM.INFO.{site.stream}"))["cluster"]
    lost = [replica["name"] for replica in cluster["replicas"]]
    yield
    for name in lost:
        stage.kill(name)
    yield
    for name in lost:
        await stage.start(name)
    await site.runs()


@makes("node-frozen", "node-frozen-stream", "scale-hangs", "move-hangs")
async def node_frozen(stage: ClusterStage) -> AsyncIterator[None]:
    alone, scaled = stage.site("node-frozen-stream"), stage.site("scale-hangs")
    moved = stage.site("move-hangs")
    await alone.add_stream(**_on("n3"))
    for site in (scaled, moved):
        await site.add_stream(**_on("n1"))
    for site in (alone, scaled, moved):
        site.publishing(2)
    await stage.lead_meta("n1")
    yield
    stage.cluster.node("n3").freeze()
    await scaled.update_stream(num_replicas=3, placement=None)
    await moved.update_stream(**_on("n3"))
    yield
    stage.cluster.node("n3").thaw()
    for site in (alone, scaled, moved):
        await site.runs()


@makes("replicas-differ")
async def replicas_differ(stage: ClusterStage) -> AsyncIterator[None]:
    site = stage.site("replicas-differ")
    # A store of small blocks, of which one can be lost.
    await site.add_stream(storage="file", num_replicas=3, max_bytes=120_000)
    await site.publish(90, size_bytes=1000)
    await stage.lead(site, "n1")
    yield
    await stage.stop("n3")
    lose_block(stage.cluster.node("n3").store / "jetstream" / "APP" / "streams" / site.stream)
    await stage.start("n3")
    yield
    await site.purge()


@makes("memory-emptied")
async def memory_emptied(stage: ClusterStage) -> AsyncIterator[None]:
    site = stage.site("memory-emptied")
    await site.add_stream(num_replicas=1, placement={"tags": ["n2"]})
    await site.add_consumer()
    await site.publish(200)
    site.work()
    yield
    await stage.stop("n2")
    await stage.start("n2")
    yield
    await site.publish(5)


@makes("leaders-unbalanced")
async def leaders_unbalanced(stage: ClusterStage) -> AsyncIterator[None]:
    site = stage.site("leaders-unbalanced")
    streams = [f"{site.stream}_{number}" for number in range(12)]
    for name in streams:
        await site.add_stream(name, storage="file", num_replicas=3)
    await stage.balance(site, streams, ("n1", "n2", "n3"))
    yield
    await stage.balance(site, streams, ("n1",))
    yield
    await stage.balance(site, streams, ("n1", "n2", "n3"))


@makes("leader-flapping")
async def leader_flapping(stage: ClusterStage) -> AsyncIterator[None]:
    site = stage.site("leader-flapping")
    await site.add_stream(storage="file", num_replicas=3)
    site.publishing(4)

    async def step_down() -> None:
        await asyncio.sleep(5)
        await site.try_api(f"STREAM.LEADER.STEPDOWN.{site.stream}")

    yield
    site.repeat("step down", step_down)
    yield
    site.stop("step down")


@makes("meta-flapping")
async def meta_flapping(stage: ClusterStage) -> AsyncIterator[None]:
    site = stage.site("meta-flapping")

    async def step_down() -> None:
        await asyncio.sleep(8)
        await stage.step_down_meta()

    yield
    site.repeat("step down", step_down)
    yield
    site.stop("step down")


@makes("cluster-node-restarts")
async def cluster_node_restarts(stage: ClusterStage) -> AsyncIterator[None]:
    site = stage.site("cluster-node-restarts")
    await site.add_stream(storage="file", num_replicas=3)
    site.publishing(4)
    await stage.lead(site, "n1")

    async def restart() -> None:
        await asyncio.sleep(15)
        await stage.stop("n3")
        await stage.start("n3")

    yield
    site.repeat("restarts", restart)
    yield
    site.stop("restarts")
    await stage.start("n3")


@makes("versions-differ")
async def versions_differ(stage: ClusterStage) -> AsyncIterator[None]:
    site = stage.site("versions-differ")
    await site.add_stream(storage="file", num_replicas=3)
    site.publishing(4)
    await stage.lead(site, "n1")
    node = stage.cluster.node("n3")
    newer = node.binary
    yield
    await stage.stop("n3")
    node.binary = stage.older_binary()
    await stage.start("n3")
    yield
    await stage.stop("n3")
    node.binary = newer
    await stage.start("n3")


@makes("lame-duck", lasting=True)
async def lame_duck(stage: ClusterStage) -> AsyncIterator[None]:
    site = stage.site("lame-duck")
    await site.add_stream(storage="file", num_replicas=3)
    site.publishing(4)
    await stage.lead(site, "n1")
    # Without a client it stops at once.
    await stage.connect_to("n2")
    yield
    stage.send(stage.cluster.node("n2"), signal.SIGUSR2)
    yield
