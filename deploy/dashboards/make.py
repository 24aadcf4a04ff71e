#!/usr/bin/env python3
"""Writes the Grafana dashboards beside it. Change panels here and run it; a test sees to it that the files are current."""

import json
from pathlib import Path
from typing import Any, Iterator

Object = dict[str, Any]

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS, WIDTH, HEIGHT = 24, 8, 8
# How the dashboard of one target or drafter is opened from a series that has it as a label.
OPEN = "/d/espalier-{page}?${{datasource:queryparam}}&${{namespace:queryparam}}&var-{label}=${{__field.labels.{label}}}"
PAGE_OF = {"target": "target", "drafter": "draft-pool"}
GREEN_IF_ONE = [{"color": "red", "value": None}, {"color": "green", "value": 1}]
RED_IF_ONE = [{"color": "green", "value": None}, {"color": "red", "value": 1}]
OPTIONS = {
    "timeseries": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
    "stat": {"colorMode": "value", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}},
    "bargauge": {"orientation": "horizontal", "displayMode": "basic", "reduceOptions": {"calcs": ["lastNotNull"]}},
    "state-timeline": {"showValue": "never", "mergeValues": True, "legend": {"displayMode": "list", "placement": "bottom"}},
}


def query(text: str) -> str:
    """A query in which selectors `{…}` are of the namespace that is looked at, and `[]` is a range that suits the zoom."""
    text = text.replace("{", '{namespace=~"$namespace", ').replace(", }", "}")
    return text.replace("[]", "[$__rate_interval]")


def panel(
    title: str,
    says: str,
    unit: str,
    *series: tuple[str, str],
    kind: str = "timeseries",
    size: tuple[int, int] = (WIDTH, HEIGHT),
    stacked: bool = False,
    maximum: float | None = None,
    steps: list[Object] | None = None,
    exemplars: bool = False,
    opens: str = "",
) -> Object:
    """A panel of `series`: what each is called, and its query. `says` is one sentence on what is seen. Who clicks a series
    gets to the dashboard of what its label `opens` says."""
    defaults: Object = {"unit": unit, "min": 0}
    if kind == "timeseries":
        defaults["custom"] = {"lineWidth": 1, "fillOpacity": 40 if stacked else 5, "showPoints": "never"}
        defaults["custom"]["stacking"] = {"mode": "normal" if stacked else "none"}
    if steps:
        defaults["color"] = {"mode": "thresholds"}
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    if maximum is not None:
        defaults["max"] = maximum
    if opens:
        url = OPEN.format(page=PAGE_OF[opens], label=opens)
        defaults["links"] = [{"title": f"Open this {opens}", "url": url}]
    targets = [
        {
            "refId": chr(ord("A") + at),
            "datasource": DATASOURCE,
            "legendFormat": legend,
            "expr": query(expr),
            **({"instant": True} if kind in ("stat", "bargauge") else {"range": True}),
            **({"exemplar": True} if exemplars else {}),
        }
        for at, (legend, expr) in enumerate(series)
    ]
    return {
        "type": kind,
        "title": title,
        "description": says,
        "datasource": DATASOURCE,
        "size": size,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": OPTIONS[kind],
        "targets": targets,
    }


def stat(title: str, says: str, unit: str, expr: str, **more: Any) -> Object:
    """A number."""
    return panel(title, says, unit, (title, expr), kind="stat", size=(4, 4), **more)


def quantiles(title: str, says: str, unit: str, metric: str, selector: str = "", **more: Any) -> Object:
    """The median, 95 % and 99 % of a histogram."""
    rate = f"sum by (le) (rate({metric}_bucket{{{selector}}}[]))"
    series = [(f"p{round(100 * q)}", f"histogram_quantile({q}, {rate})") for q in (0.5, 0.95, 0.99)]
    return panel(title, says, unit, *series, **more)


def ratio(above: str, below: str, selector: str, by: str = "") -> str:
    """How one counter grows beside another."""
    by = f"by ({by}) " if by else ""
    return f"sum {by}(rate({above}{{{selector}}}[])) / sum {by}(rate({below}{{{selector}}}[]))"


def tau(selector: str, by: str) -> str:
    """Tokens a round."""
    return ratio("espalier_tokens_total", "espalier_rounds_total", selector, by)


def by_position(selector: str) -> Object:
    """Acceptance by position."""
    return panel(
        "Acceptance by position",
        "Of all verified trees, the share that had a node of this depth accepted, the root's children having 0.",
        "percentunit",
        (
            "{{position}}",
            f"sum by (position) (rate(espalier_spec_decode_accepted_tokens_per_pos_total{{{selector}}}[]))"
            f" / on () group_left () sum(rate(espalier_spec_decode_drafts_total{{{selector}}}[]))",
        ),
    )


def round_time(selector: str) -> Object:
    """Where the time of rounds goes."""
    return panel(
        "Where a round's time goes",
        "Shares of rounds' time: growing trees, passes of the target, and all else, such as networks and queues.",
        "percentunit",
        (
            "{{part}}",
            f"sum by (part) (rate(espalier_round_time_seconds_total{{{selector}}}[]))"
            f" / on () group_left () sum(rate(espalier_round_time_seconds_total{{{selector}}}[]))",
        ),
        stacked=True,
        maximum=1,
    )


def gate(selector: str, by: str) -> list[Object]:
    """What the gate does and believes."""
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    return [
        panel(
            "Speed-up against plain decoding",
            "What drafting makes of plain decoding at the present load, as the gate has measured it; below 1 it loses.",
            "suffix: ×",
            (legend, f"avg by ({by}) (espalier_gate_speedup{{{selector}}})"),
        ),
        panel(
            "Gates that draft",
            "The share of gates that draft; the others rest, as drafting would make less than plain decoding.",
            "percentunit",
            (legend, f"avg by ({by}) (espalier_gate_drafting{{{selector}}})"),
            maximum=1,
        ),
    ]


def model_at_work(selector: str) -> list[Object]:
    """What a model does, of a verifier or a drafter, each of its replicas."""
    return [
        panel(
            "Sequences",
            "Sequences that are open at all replicas, beside how many may be.",
            "short",
            ("open", f"sum(espalier_sequences_open{{{selector}}})"),
            ("limit", f"sum(espalier_sequences_limit{{{selector}}})"),
        ),
        panel(
            "Trees that wait",
            "Trees that wait for the model at each replica; where some always wait, it is busy without a break.",
            "short",
            ("{{pod}} {{instance}}", f"sum by (pod, instance) (espalier_trees_waiting{{{selector}}})"),
        ),
        quantiles("Rows of a pass", "How many rows forward passes have.", "short", "espalier_pass_rows", selector),
        quantiles("Time of a pass", "How long forward passes take.", "s", "espalier_pass_duration_seconds", selector),
        panel(
            "KV blocks by state",
            "Memory for keys and values of all replicas, in blocks: only those that linger or are free can be had.",
            "short",
            ("{{state}}", f"sum by (state) (espalier_kv_blocks{{{selector}}})"),
            stacked=True,
        ),
        panel(
            "KV memory in use",
            "The share of each replica's memory for keys and values that is held by or promised to sequences.",
            "percentunit",
            (
                "{{pod}} {{instance}}",
                f'sum by (pod, instance) (espalier_kv_blocks{{{selector}, state=~"held|promised"}})'
                f" / sum by (pod, instance) (espalier_kv_blocks{{{selector}}})",
            ),
            maximum=1,
        ),
        panel(
            "Age of the engine's turn",
            "How long each replica's model has been at its present turn; one that grows and grows hangs.",
            "s",
            ("{{pod}} {{instance}}", f"max by (pod, instance) (espalier_engine_turn_age_seconds{{{selector}}})"),
        ),
        panel(
            "What a pass costs",
            "What a pass of so many rows takes while nothing else runs, measured at the start; mean of replicas.",
            "s",
            ("{{rows}} rows", f"sort(avg by (rows) (espalier_pass_cost_seconds{{{selector}}}))"),
            kind="bargauge",
        ),
    ]


def times(selector: str) -> list[Object]:
    """How fast answers are."""
    return [
        quantiles(
            "Time to first token",
            "From when requests came in to their first token, queues included.",
            "s",
            "gen_ai_server_time_to_first_token_seconds",
            selector,
            exemplars=True,
        ),
        quantiles(
            "Time per output token",
            "Time after the first token, over the tokens that came in it.",
            "s",
            "gen_ai_server_time_per_output_token_seconds",
            selector,
            exemplars=True,
        ),
        quantiles(
            "Time of a request",
            "From when requests came in to their last token or their failure.",
            "s",
            "gen_ai_server_request_duration_seconds",
            selector,
            exemplars=True,
        ),
    ]


def system() -> Object:
    """All targets and drafters."""
    done = 'end=~"stop|length", target!=""'
    return dashboard(
        "system",
        "What clients see of all targets, and whether all services are there.",
        [],
        {
            "At a glance": [
                stat("Requests", "Requests that end, whatever their end.", "reqps", "sum(rate(espalier_requests_total{}[]))"),
                stat(
                    "Failed",
                    "The share of requests that failed.",
                    "percentunit",
                    'sum(rate(espalier_requests_total{end="failed"}[])) / sum(rate(espalier_requests_total{}[]))',
                    steps=[{"color": "green", "value": None}, {"color": "red", "value": 0.01}],
                ),
                stat("Tokens", "Tokens that are committed in a second.", "short", "sum(rate(espalier_tokens_total{}[]))"),
                stat("tau", "Tokens a round; 1 in plain decoding.", "none", tau("", "")),
                stat(
                    "Speed-up",
                    "What drafting makes of plain decoding, as gates have measured it; mean of gates.",
                    "suffix: ×",
                    "avg(espalier_gate_speedup{})",
                ),
                stat(
                    "Services down",
                    "Services that some gateway finds down or draining.",
                    "short",
                    "count(min by (role, name, url) (espalier_service_up{}) == 0) or vector(0)",
                    steps=RED_IF_ONE,
                ),
            ],
            "Requests": [
                panel(
                    "Requests by end",
                    "How requests ended: answered (stop, length), failed, given up by their client, refused, or invalid.",
                    "reqps",
                    ("{{end}}", "sum by (end) (rate(espalier_requests_total{}[]))"),
                    stacked=True,
                ),
                panel(
                    "Answers by target",
                    "Requests that were answered in full.",
                    "reqps",
                    ("{{target}}", f"sum by (target) (rate(espalier_requests_total{{{done}}}[]))"),
                    opens="target",
                ),
                panel(
                    "Refusals by reason",
                    "Why requests were not let in.",
                    "reqps",
                    ("{{reason}}", "sum by (reason) (rate(espalier_refusals_total{}[]))"),
                ),
                *times(""),
                panel(
                    "Slots",
                    "Requests that are served and that wait for a slot, beside how many may be served at once.",
                    "short",
                    ("served", "sum(espalier_requests_running{})"),
                    ("waiting", "sum(espalier_requests_queued{})"),
                    ("limit", "sum(espalier_requests_limit{})"),
                ),
                quantiles(
                    "Time in the queue", "How long requests waited for a slot.", "s", "espalier_request_queue_time_seconds"
                ),
                panel(
                    "Tokens of prompts and answers",
                    "Tokens of requests that did not fail.",
                    "short",
                    ("{{gen_ai_token_type}}", "sum by (gen_ai_token_type) (rate(gen_ai_client_token_usage_sum{}[]))"),
                ),
            ],
            "Speculation": [
                panel(
                    "Tokens by target",
                    "Tokens committed a second.",
                    "short",
                    ("{{target}}", "sum by (target) (rate(espalier_tokens_total{}[]))"),
                    opens="target",
                ),
                panel(
                    "tau by target",
                    "Tokens a round; 1 in plain decoding.",
                    "none",
                    ("{{target}}", tau("", "target")),
                    opens="target",
                ),
                panel(
                    "tau by drafter",
                    "Tokens a round; `ngram` needs no draft model, and `none` is plain decoding.",
                    "none",
                    ("{{drafter}}", tau("", "drafter")),
                    opens="drafter",
                ),
                *gate("", "target"),
                panel(
                    "Acceptance has collapsed",
                    "Red where a target accepts far less of a drafter than is usual.",
                    "none",
                    ("{{target}} {{drafter}}", "max by (target, drafter) (espalier_acceptance_collapsed{})"),
                    kind="state-timeline",
                    steps=RED_IF_ONE,
                ),
            ],
            "Services": [
                panel(
                    "Services up",
                    "Green where all gateways send sequences, red where a service is down for one of them, or drains.",
                    "none",
                    ("{{role}} {{name}} {{url}}", "min by (role, name, url) (espalier_service_up{})"),
                    kind="state-timeline",
                    steps=GREEN_IF_ONE,
                    size=(2 * WIDTH, HEIGHT),
                ),
                panel(
                    "Failovers",
                    "Sequences that were opened again elsewhere, by who was lost, or moved as a service drained.",
                    "short",
                    ("{{party}}", "sum by (party) (increase(espalier_failovers_total{}[]))"),
                ),
                panel(
                    "Processes by version",
                    "Processes that are scraped; two versions at once are a rollout.",
                    "short",
                    ("{{version}}", "count by (version) (espalier_build_info{})"),
                    stacked=True,
                ),
                panel(
                    "Processes that take calls",
                    "Processes whose services are all loaded and do not drain, beside all processes.",
                    "short",
                    ("ready", "sum(min by (job, instance) (espalier_ready{}))"),
                    ("all", "count(count by (job, instance) (espalier_ready{}))"),
                ),
                panel(
                    "Memory of processes",
                    "Resident memory.",
                    "bytes",
                    (
                        "{{pod}} {{instance}}",
                        "sum by (pod, instance) (process_resident_memory_bytes{} and on (job, instance) espalier_build_info{})",
                    ),
                ),
            ],
        },
    )


def target() -> Object:
    """One target, and the verifiers that have it."""
    of, model = 'target="$target"', 'role="verifier", model="$target"'
    return dashboard(
        "target",
        "One target: its requests, what speculation makes of them, and its verifiers.",
        [
            variable(
                "target", "Target", 'label_values(espalier_sequences_limit{role="verifier", namespace=~"$namespace"}, model)'
            )
        ],
        {
            "Requests": [
                panel(
                    "Requests by end",
                    "How requests for the target ended that were let in.",
                    "reqps",
                    ("{{end}}", f"sum by (end) (rate(espalier_requests_total{{{of}}}[]))"),
                    stacked=True,
                ),
                panel(
                    "Tokens by drafter",
                    "Tokens committed a second; `ngram` needs no draft model, and `none` is plain decoding.",
                    "short",
                    ("{{drafter}}", f"sum by (drafter) (rate(espalier_tokens_total{{{of}}}[]))"),
                    stacked=True,
                    opens="drafter",
                ),
                panel(
                    "Verifiers up",
                    "Verifiers of the target that all gateways send sequences to, beside all that they know.",
                    "short",
                    ("up", 'sum(min by (url) (espalier_service_up{role="verifier", name="$target"}))'),
                    ("known", 'count(min by (url) (espalier_service_up{role="verifier", name="$target"}))'),
                ),
                *times('gen_ai_request_model="$target"'),
            ],
            "Speculation": [
                panel(
                    "tau by drafter",
                    "Tokens a round; 1 in plain decoding.",
                    "none",
                    ("{{drafter}}", tau(of, "drafter")),
                    opens="drafter",
                ),
                by_position(of),
                panel(
                    "Trees",
                    "Nodes of a tree that was verified, and how many of them were accepted.",
                    "none",
                    ("nodes", ratio("espalier_spec_decode_draft_tokens_total", "espalier_spec_decode_drafts_total", of)),
                    ("accepted", ratio("espalier_spec_decode_accepted_tokens_total", "espalier_spec_decode_drafts_total", of)),
                ),
                *gate(of, "drafter"),
                round_time(of),
            ],
            "Verifiers": [
                *model_at_work(model),
                panel(
                    "Sequences that missed a pass",
                    "Of sequences past their prompt, the share that had no row in a pass, as their drafter was not back yet.",
                    "percentunit",
                    (
                        "missed",
                        'sum(rate(espalier_pass_sequences_missed_total{model="$target"}[])) / (sum(rate('
                        'espalier_pass_sequences_missed_total{model="$target"}[])) + sum(rate('
                        f"espalier_pass_sequences_total{{{model}}}[])))",
                    ),
                    maximum=1,
                ),
            ],
        },
    )


def draft_pool() -> Object:
    """One draft model, and the drafters that have it."""
    of, model = 'drafter="$drafter"', 'role="drafter", model="$drafter"'
    return dashboard(
        "draft-pool",
        "One draft model: what it makes of each target, what it costs, and its drafters.",
        [
            variable(
                "drafter", "Drafter", 'label_values(espalier_sequences_limit{role="drafter", namespace=~"$namespace"}, model)'
            )
        ],
        {
            "What it makes": [
                panel(
                    "Tokens by target",
                    "Tokens committed a second in rounds of this drafter.",
                    "short",
                    ("{{target}}", f"sum by (target) (rate(espalier_tokens_total{{{of}}}[]))"),
                    stacked=True,
                    opens="target",
                ),
                panel(
                    "tau by target",
                    "Tokens a round, rounds at rest included; 1 in plain decoding.",
                    "none",
                    ("{{target}}", tau(of, "target")),
                    opens="target",
                ),
                by_position(of),
                *gate(of, "target, verifier"),
                round_time(of),
                panel(
                    "Trees by target",
                    "Nodes of a tree that was verified.",
                    "none",
                    (
                        "{{target}}",
                        ratio("espalier_spec_decode_draft_tokens_total", "espalier_spec_decode_drafts_total", of, "target"),
                    ),
                ),
                panel(
                    "Rounds with a tree",
                    "The share of rounds that verified a tree; in the others drafting rested.",
                    "percentunit",
                    ("{{target}}", ratio("espalier_spec_decode_drafts_total", "espalier_rounds_total", of, "target")),
                    maximum=1,
                ),
                panel(
                    "Drafters up",
                    "Drafters of the pool that all gateways send sequences to, beside all that they know.",
                    "short",
                    ("up", 'sum(min by (url) (espalier_service_up{role="drafter", name="$drafter"}))'),
                    ("known", 'count(min by (url) (espalier_service_up{role="drafter", name="$drafter"}))'),
                ),
            ],
            "What it costs": [
                panel(
                    "A level of a tree",
                    "What a level takes to grow, as measured lately, by target; mean of drafters.",
                    "s",
                    ("{{target}}", f"avg by (target) (espalier_cost_level_seconds{{{of}}})"),
                ),
                panel(
                    "A verification",
                    "What a verification of so many rows takes, ways and queues included, as measured lately.",
                    "s",
                    ("{{target}} {{rows}} rows", f"avg by (target, rows) (espalier_cost_verification_seconds{{{of}}})"),
                    size=(2 * WIDTH, HEIGHT),
                ),
            ],
            "Drafters": model_at_work(model),
        },
    )


def variable(name: str, label: str, values: str, **more: Any) -> Object:
    """A choice at the top of a dashboard, of what Prometheus knows."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": values, "refId": name},
        "definition": values,
        "refresh": 2,
        "sort": 1,
    } | more


def placed(rows: dict[str, list[Object]]) -> Iterator[Object]:
    """Panels with numbers and places: each row under its heading, from left to right."""
    number = y = 0
    for title, panels in rows.items():
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
        }
        x, y = 0, y + 1
        for each in panels:
            width, height = each.pop("size")
            if x + width > COLUMNS:
                x, y = 0, y + height
            number += 1
            yield {"id": number, **each, "gridPos": {"x": x, "y": y, "w": width, "h": height}}
            x += width
        y += height


def dashboard(name: str, says: str, variables: list[Object], rows: dict[str, list[Object]]) -> Object:
    """A dashboard, as Grafana 9 and later import it."""
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}
    every = {"includeAll": True, "allValue": ".*", "multi": True, "current": {"text": "All", "value": "$__all"}}
    namespace = variable("namespace", "Namespace", "label_values(espalier_build_info, namespace)", **every)
    link = {"type": "dashboards", "title": "Espalier", "tags": ["espalier"], "includeVars": True, "keepTime": True}
    return {
        "uid": f"espalier-{name}",
        "title": f"Espalier: {name.replace('-', ' ')}",
        "description": says,
        "tags": ["espalier"],
        "schemaVersion": 38,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [link],
        "templating": {"list": [source, namespace, *variables]},
        "panels": list(placed(rows)),
    }


def text(value: Any, indent: str = "") -> str:
    """JSON in which what fits into a line stands in one."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or len(indent + line) <= 120:
        return line
    further = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {text(below, further)}" for key, below in value.items()]
    else:
        parts = [text(below, further) for below in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(further + part for part in parts) + f"\n{indent}{closing}"


def files() -> dict[str, str]:
    """All dashboards by the names of their files."""
    return {f"{made['uid'].removeprefix('espalier-')}.json": text(made) + "\n" for made in (system(), target(), draft_pool())}


if __name__ == "__main__":
    for file, content in files().items():
        Path(__file__).with_name(file).write_text(content, encoding="utf-8")
