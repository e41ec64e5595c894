"""Computes from a trace (docs/trace.md) how much of the workers' sending overlaps with computation."""

COMPUTING = ("forward", "backward", "update", "rebuild")


def union(spans):
    """Merges spans: sorted, without overlaps."""
    merged = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def length(spans):
    return sum(end - begin for begin, end in spans)


def common(first, second):
    """The length of the intersection of two unions."""
    shared, i, k = 0.0, 0, 0
    while i < len(first) and k < len(second):
        begin, end = max(first[i][0], second[k][0]), min(first[i][1], second[k][1])
        shared += max(0.0, end - begin)
        if first[i][1] < second[k][1]:
            i += 1
        else:
            k += 1
    return shared


def shares(events):
    """The values of all workers together: `sent_ms`, the time of sending; `hidden`, the share of it that overlaps with
    computation of the same worker; `waited`, the share of time in which computation waits for a layer's parameters. If
    the trace has the device's own times, uses these for computation."""
    workers = {event["pid"] for event in events
               if event.get("name") == "process_name" and event["args"]["name"].startswith("worker")}
    on_device = {(event["pid"], event["tid"]) for event in events
                 if event.get("name") == "thread_name" and event["args"]["name"] == "device"}
    told = {worker for worker, _ in on_device}
    sent = beside = waited = lasted = 0.0
    for worker in workers:
        spans = [(event["cat"], event["name"], event["ts"], event["ts"] + event["dur"]) for event in events
                 if event.get("ph") == "X" and event["pid"] == worker
                 and (event["cat"] == "send" or worker not in told or (worker, event["tid"]) in on_device)]
        sends = union([span[2:] for span in spans if span[0] == "send"])
        computed = union([span[2:] for span in spans if span[0] in COMPUTING])
        waits = union([span[2:] for span in spans if span[0] == "wait" and span[1] != "batch"])
        sent += length(sends)
        beside += common(sends, computed)
        waited += length(waits)
        lasted += max((span[3] for span in spans if span[0] != "send"), default=0) - min(
            (span[2] for span in spans if span[0] != "send"), default=0)
    return {"workers": len(workers), "sent_ms": sent / 1e3, "hidden": beside / sent if sent else 0.0,
            "waited_ms": waited / 1e3, "waited": waited / lasted if lasted else 0.0}
