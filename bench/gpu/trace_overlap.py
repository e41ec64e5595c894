"""How much of what workers send they send beside computing, by a trace (docs/trace.md)."""

COMPUTING = ("forward", "backward", "update", "rebuild")


def union(spans):
    """The spans, sorted and without overlaps."""
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
    """The length of what two unions share."""
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
    """Of all workers: milliseconds of sending, and the share of it beside which the same worker computes."""
    workers = {event["pid"] for event in events
               if event.get("name") == "process_name" and event["args"]["name"].startswith("worker")}
    sent = beside = waited = 0.0
    for worker in workers:
        spans = [(event.get("cat"), event["ts"], event["ts"] + event["dur"]) for event in events
                 if event.get("ph") == "X" and event["pid"] == worker]
        sends = union([span[1:] for span in spans if span[0] == "send"])
        computed = union([span[1:] for span in spans if span[0] in COMPUTING])
        sent += length(sends)
        beside += common(sends, computed)
        waited += length(union([span[1:] for span in spans if span[0] == "wait"]))
    return {"workers": len(workers), "sent_ms": sent / 1e3, "hidden": beside / sent if sent else 0.0,
            "waited_ms": waited / 1e3}
