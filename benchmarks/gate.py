"""Correct before timed: contenders are built, checked on the very sentences, and only then compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from contenders import PEER_INT8, Contender, missing_rows
from job import Encode, Row, Setting, Vectors, failure
from measure import interleaved

from ditto_fast.errors import ParityError
from ditto_fast.similarity import similarity_pairwise
from ditto_fast.tolerances import MAX_NORM_ERRORS, MIN_COSINES, TOLERANCES, difference, norm_error

# A peer's own int8 may be a little looser than ours: how close it comes is a figure.
_MIN_COSINES = {**MIN_COSINES, PEER_INT8: 0.9}
_MAX_NORM_ERRORS = {**MAX_NORM_ERRORS, PEER_INT8: 0.2}
# Of such a one the same less the mean of all texts: any two texts may have a cosine of 0.9, but not of what is left.
_MIN_CENTRED = {PEER_INT8: 0.9}


def gate(contender: Contender, actual: Vectors, expected: Vectors) -> dict[str, float]:
    """Returns how far the vectors lie apart: the largest difference and the smallest cosine.

    Raises:
        ParityError: Too far: no time is worth printing.
    """
    distance = difference(actual, expected)
    cosine = float(similarity_pairwise(actual, expected).min()) if distance == distance else float("nan")
    if contender.precision in TOLERANCES:
        passed = distance <= TOLERANCES[contender.precision]
    else:
        passed = (
            cosine >= _MIN_COSINES[contender.precision]
            and norm_error(actual, expected) <= _MAX_NORM_ERRORS[contender.precision]
            and _centred_cosine(actual, expected) >= _MIN_CENTRED.get(contender.precision, -1)
        )
    if not passed:
        raise ParityError(
            f"{contender.name} differs by {distance:.3g} (smallest cosine {cosine:.4f}, norms off by "
            f"{norm_error(actual, expected) if distance == distance else distance:.2g}) from "
            f"{contender.expected.__name__}."
        )
    return {"difference": distance, "cosine_min": cosine}


def _centred_cosine(actual: Vectors, expected: Vectors) -> float:
    """Smallest cosine of what tells texts apart; of one text nothing does."""
    if len(expected) < 2:
        return 1.0
    mean = expected.mean(axis=0)
    return float(similarity_pairwise(actual - mean, expected - mean).min())


def require_equal(name: str, actual: Vectors, expected: Vectors) -> None:
    """Passes vectors that are equal within the fp32 tolerance.

    Raises:
        ParityError: They are not: no time is worth printing.
    """
    distance = difference(actual, expected)
    if not distance <= TOLERANCES["fp32"]:
        raise ParityError(f"{name} differs by {distance:.3g}.")


@dataclass
class Field:
    """The contenders that may be timed, and the rows of those that may not.

    Args:
        encoders: What to time, by the contender's key.
        checks: How far each lies from its independent check.
        rows: A row for each contender that is not installed or failed.
    """

    encoders: dict[str, Encode] = field(default_factory=dict)
    checks: dict[str, dict[str, float]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)


def admit(contenders: Sequence[Contender], setting: Setting, texts: list[str], case: str) -> Field:
    """Builds each contender and compares its vectors of `texts` with those of its independent check."""
    admitted = Field(rows=missing_rows(contenders, case))
    expected: dict[str, Vectors] = {}
    for contender in contenders:
        if contender.missing():
            continue
        try:
            encode = contender.build(setting)
            by = contender.expected
            if by.__name__ not in expected:
                expected[by.__name__] = by(setting)(texts)
            admitted.checks[contender.key] = gate(contender, encode(texts), expected[by.__name__])
            admitted.encoders[contender.key] = encode
        except Exception as error:  # of any library: it becomes a row
            admitted.rows.append(failure(case, contender.key, error))
    return admitted


def timed(
    admitted: Field,
    texts: list[str],
    case: str,
    rounds: int,
    floors: Mapping[str, Callable[[], Callable[[], None]]] = MappingProxyType({}),
) -> list[Row]:
    """A row with raw samples for each admitted contender and for each floor, after those of the others.

    One that raises has a row that says so, and the others keep their samples.

    Args:
        admitted: Who is timed; a contender that raises is taken out.
        texts: What is encoded.
        case: Of the rows.
        rounds: Timed rounds.
        floors: Makes the function of each floor, by its key.
    """
    functions: dict[str, Callable[[], object]] = {
        key: partial(encode, texts) for key, encode in admitted.encoders.items()
    }
    errors: dict[str, Exception] = {}
    for key, build in floors.items():
        try:
            run = build()
            run()  # warm, as the gate's run has made the others
            functions[key] = run
        except Exception as error:  # such as a model that it is not known for
            errors[key] = error
    samples = interleaved(functions, rounds, errors)
    for key in errors:
        admitted.encoders.pop(key, None)
    common = {"case": case, "sentences": len(texts)}
    failures = [failure(case, key, error) for key, error in errors.items()]
    measured = [
        {**common, "contender": key, "seconds": seconds, **admitted.checks.get(key, {})}
        for key, seconds in samples.items()
    ]
    return admitted.rows + failures + measured


def compared(case: str, ways: Mapping[str, Callable[[], Vectors]], expected: Vectors, rounds: int) -> Iterator[Row]:
    """A row a way to the same vectors, with its seconds; one that raises or gives others has a row that says so."""
    functions: dict[str, Callable[[], object]] = {}
    errors: dict[str, Exception] = {}
    for name, run in ways.items():
        try:
            require_equal(name, run(), expected)  # warms, too
            functions[name] = run
        except Exception as error:  # of any library: it becomes a row
            errors[name] = error
    samples = interleaved(functions, rounds, errors)
    yield from (failure(case, name, error) for name, error in errors.items())
    for name, seconds in samples.items():
        yield {"case": case, "contender": name, "seconds": seconds}
