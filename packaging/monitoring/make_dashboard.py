#!/usr/bin/env python3
"""Writes grafana.json, the dashboard for Grafana: packaging/monitoring/make_dashboard.py

With --check it changes nothing and fails if the file is not what it would write.
"""

import json
import pathlib
import sys

FILE = pathlib.Path(__file__).parent / "grafana.json"
SOURCE = {"type": "prometheus", "uid": "${source}"}
OF = '{instance=~"$instance"'


def of(more=""):
    """The labels that select the chosen servers."""
    return OF + (", " + more if more else "") + "}"


def rate(metric, more=""):
    return f"rate({metric}{of(more)}[$__rate_interval])"


def quantile(q, metric):
    return f"histogram_quantile({q}, sum by (le) ({rate(metric + '_bucket')}))"


def quantiles(metric):
    return [(quantile(q, metric), f"{q * 100:g} %") for q in (0.5, 0.99)]


QUEUE = 'queue=~"$queue"'
READY = QUEUE + ', status="ready"'
BURIED = 'status="buried"'

# Rows of panels: title, kind, unit, queries with their legends.
ROWS = [
    ("Now", [
        ("Jobs", "stat", "short", [(f"sum(jobcentre_jobs{of()})", "")]),
        ("Longest wait", "stat", "s",
         [(f"max(jobcentre_queue_oldest_ready_seconds{of()})", "")]),
        ("Buried", "stat", "short",
         [(f"sum(jobcentre_queue_jobs{of(BURIED)})", "")]),
        ("Event loop", "gauge", "percentunit",
         [(f"max(jobcentre_loop_utilisation_ratio{of()})", "")]),
    ]),
    ("Jobs", [
        ("Events of jobs", "timeseries", "ops",
         [(f"sum by (event) ({rate('jobcentre_job_events_total')})", "{{event}}")]),
        ("Jobs by status", "timeseries", "short",
         [(f"sum by (status) (jobcentre_queue_jobs{of(QUEUE)})", "{{status}}")]),
        ("Ready jobs by queue, the 10 largest", "timeseries", "short",
         [(f"topk(10, jobcentre_queue_jobs{of(READY)})", "{{queue}}")]),
        ("Age of the oldest ready job, the 10 oldest", "timeseries", "s",
         [(f"topk(10, jobcentre_queue_oldest_ready_seconds{of(QUEUE)})", "{{queue}}")]),
        ("Time from ready to reserved", "timeseries", "s", quantiles("jobcentre_job_ready_seconds")),
        ("Time until an answer", "timeseries", "s", quantiles("jobcentre_command_seconds")),
    ]),
    ("Connections", [
        ("Connections", "timeseries", "short",
         [(f"sum by (protocol) (jobcentre_connections{of()})", "{{protocol}}")]),
        ("Rejected, and tokens that no user has", "timeseries", "ops",
         [(f"sum by (protocol) ({rate('jobcentre_connections_rejected_total')})", "{{protocol}}"),
          (f"sum({rate('jobcentre_authentication_failures_total')})", "tokens")]),
        ("Bytes received", "timeseries", "Bps",
         [(f"sum by (protocol) ({rate('jobcentre_received_bytes_total')})", "{{protocol}}")]),
        ("Bytes sent", "timeseries", "Bps",
         [(f"sum by (protocol) ({rate('jobcentre_sent_bytes_total')})", "{{protocol}}")]),
    ]),
    ("Journal and memory", [
        ("Duration of a sync", "timeseries", "s",
         [(f"sum({rate('jobcentre_journal_sync_seconds_sum')}) "
           f"/ sum({rate('jobcentre_journal_sync_seconds_count')})", "mean"),
          (f"max(jobcentre_journal_longest_sync_seconds{of()})", "longest since the start")]),
        ("Bytes of the journal", "timeseries", "bytes",
         [(f"sum by (kind) (jobcentre_journal_bytes{of()})", "{{kind}}"),
          (f"sum(jobcentre_journal_files_bytes{of()})", "files")]),
        ("Memory", "timeseries", "bytes",
         [(f"sum(jobcentre_resident_memory_bytes{of()})", "resident"),
          (f"sum by (part) (jobcentre_memory_used_bytes{of()})", "{{part}}"),
          (f"sum(jobcentre_memory_limit_bytes{of()})", "limit")]),
        ("Passes of the loop", "timeseries", "s",
         quantiles("jobcentre_loop_pass_seconds")
         + [(f"max(jobcentre_loop_longest_pass_seconds{of()})", "longest since the start")]),
    ]),
]


def variable(name, label, metric, label_name):
    return {
        "name": name, "label": label, "type": "query", "datasource": SOURCE,
        "query": {"query": f"label_values({metric}, {label_name})", "refId": name},
        "definition": f"label_values({metric}, {label_name})",
        "includeAll": True, "multi": True, "allValue": ".*", "refresh": 2, "sort": 1,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def panel(number, title, kind, unit, queries, place):
    made = {
        "id": number, "title": title, "type": kind, "datasource": SOURCE, "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query,
             "legendFormat": legend or "__auto"}
            for at, (query, legend) in enumerate(queries)
        ],
    }
    if kind == "gauge":
        made["fieldConfig"]["defaults"]["max"] = 1
    return made


def dashboard():
    panels, y = [], 0
    for title, row in ROWS:
        panels.append({"id": len(panels) + 1, "title": title, "type": "row", "collapsed": False,
                       "panels": [], "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        y += 1
        small = row[0][1] == "stat"
        width, height, columns = (6, 4, 4) if small else (12, 8, 2)
        for at, (name, kind, unit, queries) in enumerate(row):
            place = {"x": at % columns * width, "y": y + at // columns * height,
                     "w": width, "h": height}
            panels.append(panel(len(panels) + 1, name, kind, unit, queries, place))
        y += -(-len(row) // columns) * height
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus",
              "refresh": 1, "current": {}}
    return {
        "title": "jobcentre", "uid": "jobcentre", "tags": ["jobcentre"], "schemaVersion": 38,
        "editable": True, "refresh": "30s", "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [
            source,
            variable("instance", "Server", "jobcentre_build_info", "instance"),
            variable("queue", "Queue", "jobcentre_queue_jobs", "queue"),
        ]},
        "panels": panels,
    }


text = json.dumps(dashboard(), indent=1) + "\n"
if "--check" not in sys.argv:
    FILE.write_text(text)
elif FILE.read_text() != text:
    sys.exit(f"{FILE} is not what make_dashboard.py writes: run it")
