"""Checks PromQL against the tables of docs/telemetry.md, which a test in Rust holds equal to the registry of metrics.

It follows labels through a query, so that it finds what Prometheus answers with nothing and without an error: a label
that no series has, two sides that never match, a rate of something that is no counter.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser as promql

ROOT = Path(__file__).resolve().parents[2]
# Labels that scraping adds. Not `service`: with a ServiceMonitor that is the Service of Kubernetes, and no metric's own.
SCRAPED = {"job", "instance", "namespace", "pod"}
RATES = {"rate", "increase"}
OF_GAUGES = {"avg_over_time", "max_over_time", "min_over_time"}
PLAIN = {"histogram_quantile", "sort", "absent", "vector"}
AGGREGATIONS = {"sum", "min", "max", "avg", "count"}
# What Grafana puts in place of a variable in a range.
VARIABLES = {"$__rate_interval": "5m", "$__range": "1h"}

Labels = frozenset[str]
Object = dict[str, Any]


class Fault(Exception):
    """What is wrong with a query."""


@dataclass(frozen=True)
class Metric:
    """A row of the tables."""

    kind: str
    labels: Labels


def metrics() -> dict[str, Metric]:
    """All metrics of the page, by their name in Prometheus."""
    found = {}
    for line in (ROOT / "docs/telemetry.md").read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| `(\w+)` \| `[\w.]+` \| (counter|gauge|histogram), \S+ \| ([^|]*) \|", line)
        if row:
            found[row[1]] = Metric(row[2], frozenset(re.findall(r"`(\w+)`", row[3])))
    return found


METRICS = metrics()


def series(name: str) -> Metric:
    """The metric that a series is of; those of a histogram have a suffix, and buckets a bound."""
    if name in METRICS and METRICS[name].kind != "histogram":
        return METRICS[name]
    stem, _, suffix = name.rpartition("_")
    of = METRICS.get(stem)
    if of and of.kind == "histogram" and suffix in ("bucket", "sum", "count"):
        return Metric("histogram", of.labels | ({"le"} if suffix == "bucket" else set()))
    raise Fault(f"there is no series {name}")


def selected(selector: promql.VectorSelector, within: str) -> Labels:
    """The labels of a selector, which stands directly within a function, or not."""
    metric = series(selector.name)
    if metric.kind == "gauge" and within in RATES:
        raise Fault(f"{selector.name} is a gauge, of which there is no {within}")
    if metric.kind != "gauge" and within not in RATES | {"absent"}:
        raise Fault(f"{selector.name} is a {metric.kind}, and only its rate says something")
    labels = metric.labels | SCRAPED
    for matcher in selector.matchers.matchers:
        if matcher.name not in labels:
            raise Fault(f"{selector.name} has no label {matcher.name}")
    return labels


def labels_of(expr: promql.Expr, within: str = "") -> Labels | None:
    """The labels that series of a query can have; none at all of a number."""
    match expr:
        case promql.NumberLiteral():
            return None
        case promql.ParenExpr() | promql.UnaryExpr():
            return labels_of(expr.expr, within)
        case promql.VectorSelector():
            return selected(expr, within)
        case promql.MatrixSelector():
            return selected(expr.vector_selector, within)
        case promql.Call():
            return labels_of_call(expr)
        case promql.AggregateExpr():
            return labels_of_aggregation(expr)
        case promql.BinaryExpr():
            return labels_of_pair(expr)
    raise Fault(f"{type(expr).__name__} is not known here")


def labels_of_call(call: promql.Call) -> Labels:
    name = call.func.name
    if name not in RATES | OF_GAUGES | PLAIN:
        raise Fault(f"the function {name} is not known here")
    labels = labels_of(call.args[-1], name)
    if name == "vector":
        return frozenset()
    if name == "absent":
        return frozenset(m.name for m in call.args[0].matchers.matchers if m.op == promql.MatchOp.Equal)
    if name == "histogram_quantile":
        if "le" not in labels:
            raise Fault("a quantile needs the label le")
        return labels - {"le"}
    return labels


def labels_of_aggregation(aggregation: promql.AggregateExpr) -> Labels:
    if str(aggregation.op) not in AGGREGATIONS:
        raise Fault(f"the aggregation {aggregation.op} is not known here")
    labels = labels_of(aggregation.expr)
    if aggregation.modifier is None:
        return frozenset()
    if aggregation.modifier.type != promql.AggModifierType.By:
        raise Fault("`without` depends on labels that scraping adds: say `by`")
    by = frozenset(aggregation.modifier.labels)
    if by - labels:
        raise Fault(f"there is no label {', '.join(sorted(by - labels))} to group by in {aggregation.expr}")
    return by


def labels_of_pair(pair: promql.BinaryExpr) -> Labels | None:
    left, right = labels_of(pair.lhs), labels_of(pair.rhs)
    if left is None or right is None:
        return right if left is None else left
    operator = str(pair.op)
    if operator == "or":
        return left | right
    matching = pair.modifier.matching if pair.modifier else None
    if matching is None:
        if left != right:
            raise Fault(f"the sides of {pair} have other labels: {sorted(left)}, {sorted(right)}")
        return left
    if matching.type != promql.LabelModifierType.Include:
        raise Fault("`ignoring` depends on labels that scraping adds: say `on`")
    on = frozenset(matching.labels)
    for side in (left, right):
        if on - side:
            raise Fault(f"a side of {pair} has no label {', '.join(sorted(on - side))}")
    if operator in ("and", "unless"):
        return left
    if pair.modifier.card == promql.VectorMatchCardinality.ManyToOne:
        if right - on:
            raise Fault(f"the right side of {pair} may have several series for one of the left")
        return left
    return on


def parsed(query: str) -> promql.Expr:
    """A query with something in place of Grafana's variables."""
    for variable, value in VARIABLES.items():
        query = query.replace(variable, value)
    try:
        return promql.parse(query)
    except ValueError as error:
        raise Fault(str(error)) from error


def check(query: str) -> Labels:
    """The labels that what a query finds can have. A fault says what is wrong with it."""
    return labels_of(parsed(query)) or frozenset()


def selectors(query: str) -> list[promql.VectorSelector]:
    """All selectors of a query."""
    found = []

    def visit(expr: promql.Expr) -> None:
        if isinstance(expr, promql.VectorSelector):
            found.append(expr)

    promql.walk(parsed(query), visit)
    return found
