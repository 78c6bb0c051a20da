"""Notices that the devices wait for their data."""

SHARE = 0.1  # of the time
SECONDS = 2.0  # of less time any hiccup is a large share

ADVICE = "Keep it on a local disk; text that is streamed is tokenised as it is read, other text once, before."


class Watchdog:
    """Looks at the time between the lines of a log, and barks once a run.

    The first line is left out: it has the wait for the very first batch.
    """

    def __init__(self):
        self._first, self._barked = True, False
        self._updates, self._seconds, self._waited = 0, 0.0, 0.0

    def look(self, updates: int, seconds: float, waited: float) -> str | None:
        """A sentence where data holds up the updates, over the last lines that together were long enough.

        Args:
            updates: since the line before.
            seconds: that they took.
            waited: of these, while the devices had nothing to do.
        """
        if self._first:
            self._first = False
            return None
        self._updates += updates
        self._seconds += seconds
        self._waited += waited
        if self._barked or self._seconds < SECONDS:
            return None
        each, waiting = self._seconds / self._updates, self._waited / self._updates
        self._updates, self._seconds, self._waited = 0, 0.0, 0.0
        self._barked = waiting > SHARE * each
        if not self._barked:
            return None
        times = f"{waiting * 1e3:,.0f} ms of each update's {each * 1e3:,.0f} ms"
        return f"warning: {times} are spent waiting for data. {ADVICE}"
