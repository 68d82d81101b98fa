"""Headers that go stale, and how they are renewed."""

import asyncio
import logging
from pathlib import Path

import pytest

from scheduler.client.credentials import Credential, RenewedCredentials, TokenFile
from scheduler.client.errors import KubeconfigError
from tests.client.objects import InstantClock


class Issuer:
    """Issues numbered headers that live for `seconds`; fails while told to."""

    def __init__(self, clock: InstantClock, seconds: float | None) -> None:
        self.clock = clock
        self.seconds = seconds
        self.issued = 0
        self.failing = False

    def __call__(self) -> Credential:
        if self.failing:
            raise KubeconfigError("the issuer is out to lunch")
        self.issued += 1
        stale_at = None if self.seconds is None else self.clock.now() + self.seconds
        return Credential(header=f"Bearer {self.issued}", stale_at=stale_at)


@pytest.fixture
def clock() -> InstantClock:
    return InstantClock()


async def test_a_header_is_kept_until_it_is_stale(clock: InstantClock) -> None:
    issuer = Issuer(clock, 60)
    credentials = RenewedCredentials(issuer, clock=clock)
    headers = []
    for seconds in (0, 59, 1, 30):
        clock.time += seconds
        headers.append(await credentials.authorization())

    assert headers == ["Bearer 1", "Bearer 1", "Bearer 2", "Bearer 2"]


async def test_a_header_without_an_end_is_kept_until_it_is_rejected(clock: InstantClock) -> None:
    credentials = RenewedCredentials(Issuer(clock, None), clock=clock)
    clock.time += 1e9
    assert await credentials.authorization() == "Bearer 1"
    credentials.rejected("Bearer 1")
    assert await credentials.authorization() == "Bearer 2"
    credentials.rejected("Bearer 1")

    assert await credentials.authorization() == "Bearer 2"


async def test_many_requests_renew_once(clock: InstantClock) -> None:
    issuer = Issuer(clock, 60)
    credentials = RenewedCredentials(issuer, clock=clock)
    clock.time += 60
    headers = await asyncio.gather(*(credentials.authorization() for _ in range(20)))

    assert set(headers) == {"Bearer 2"}
    assert issuer.issued == 2


async def test_an_old_header_is_better_than_none(
    clock: InstantClock, caplog: pytest.LogCaptureFixture
) -> None:
    issuer = Issuer(clock, 60)
    credentials = RenewedCredentials(issuer, clock=clock)
    issuer.failing = True
    clock.time += 60
    with caplog.at_level(logging.WARNING):
        assert await credentials.authorization() == "Bearer 1"
        assert await credentials.authorization() == "Bearer 1"
    assert len(caplog.records) == 1
    assert "out to lunch" in caplog.text
    issuer.failing = False
    assert await credentials.authorization() == "Bearer 1"
    clock.time += 10

    assert await credentials.authorization() == "Bearer 2"


async def test_an_issuer_that_fails_from_the_start_is_an_error(clock: InstantClock) -> None:
    issuer = Issuer(clock, 60)
    issuer.failing = True
    with pytest.raises(KubeconfigError, match="out to lunch"):
        RenewedCredentials(issuer, clock=clock)


async def test_certificates_that_come_along_are_passed_on(clock: InstantClock) -> None:
    used: list[str] = []
    credentials = RenewedCredentials(
        lambda: Credential(certificate=str(len(used)), stale_at=clock.now() + 1),
        clock=clock,
        use_certificate=lambda credential: used.append(credential.certificate),
    )
    clock.time += 1
    await credentials.authorization()

    assert used == ["0", "1"]


async def test_a_token_file_is_read_again_every_minute(clock: InstantClock, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n", encoding="utf-8")
    credentials = RenewedCredentials(TokenFile(path, clock=clock), clock=clock)
    path.write_text("two\n", encoding="utf-8")
    assert await credentials.authorization() == "Bearer one"
    clock.time += 60

    assert await credentials.authorization() == "Bearer two"


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"])
def test_a_token_file_without_a_token_is_named(
    clock: InstantClock, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(KubeconfigError, match=f"^{path}: "):
        TokenFile(path, clock=clock)()
