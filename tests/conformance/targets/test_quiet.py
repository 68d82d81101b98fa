"""The loop that knows when nothing is left to do but wait."""

import asyncio
import socket
from collections.abc import Coroutine
from typing import TypeVar

from conformance.targets.quiet import QuietLoop

T = TypeVar("T")


def _run(main: Coroutine[object, object, T]) -> T:
    with asyncio.Runner(loop_factory=QuietLoop) as runner:
        return runner.run(main)


def _loop() -> QuietLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, QuietLoop)
    return loop


def test_quiet_comes_after_a_chain_of_tasks() -> None:
    async def main() -> int:
        turns = 0

        async def work() -> None:
            nonlocal turns
            for _ in range(100):
                await asyncio.sleep(0)
                turns += 1

        task = asyncio.ensure_future(work())
        await _loop().quiet()
        assert task.done()
        return turns

    assert _run(main()) == 100


def test_quiet_comes_after_all_messages_on_a_socket() -> None:
    async def main() -> list[bytes]:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        their_reader, their_writer = await asyncio.open_connection(sock=theirs)
        heard: list[bytes] = []

        async def answer() -> None:
            while line := await their_reader.readline():
                their_writer.write(line.upper())

        async def talk() -> None:
            for number in range(20):
                writer.write(b"line %d\n" % number)
                heard.append(await reader.readline())

        answering, talking = asyncio.ensure_future(answer()), asyncio.ensure_future(talk())
        await _loop().quiet()
        assert talking.done()
        writer.close()
        await answering
        their_writer.close()
        await asyncio.gather(writer.wait_closed(), their_writer.wait_closed())
        return heard

    heard = _run(main())
    assert len(heard) == 20
    assert heard[-1] == b"LINE 19\n"


def test_quiet_does_not_wait_for_timers() -> None:
    async def main() -> bool:
        sleeper = asyncio.ensure_future(asyncio.sleep(3600))
        await _loop().quiet()
        was_asleep = not sleeper.done()
        sleeper.cancel()
        return was_asleep

    assert _run(main())


def test_several_may_wait_for_quiet() -> None:
    async def main() -> None:
        await asyncio.gather(*(_loop().quiet() for _ in range(3)))

    _run(main())


def test_timers_work_as_in_any_loop() -> None:
    async def main() -> list[int]:
        order: list[int] = []
        loop = asyncio.get_running_loop()
        loop.call_later(0.002, order.append, 2)
        loop.call_later(0.001, order.append, 1)
        await asyncio.sleep(0.004)
        return order

    assert _run(main()) == [1, 2]


def test_sockets_that_are_ready_together_are_served_in_the_order_they_came() -> None:
    async def main() -> list[int]:
        loop, served = _loop(), list[int]()
        pairs = [socket.socketpair() for _ in range(6)]
        # Neither the numbers of the files nor the order in which they become ready may matter.
        order = [3, 0, 5, 1, 4, 2]
        for number in order:
            ours = pairs[number][0]
            loop.add_reader(ours, lambda n=number, s=ours: served.append(n) or s.recv(1))
        for number in (2, 4, 0, 5, 3, 1):
            pairs[number][1].send(b"x")
        await loop.quiet()
        for ours, theirs in pairs:
            loop.remove_reader(ours)
            ours.close()
            theirs.close()
        assert sorted(served) == sorted(order)
        return [order.index(number) for number in served]

    assert _run(main()) == [0, 1, 2, 3, 4, 5]
