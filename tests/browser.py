# SPDX-License-Identifier: MIT
"""Opens reports in headless Chromium, as people will: wide, on a tablet, on a phone, dark, and printed.

usage: browser.py CHROMIUM FOLDER FILE.html...

For each file, screenshots NAME-WIDTH-SCHEME.png and NAME.pdf go to FOLDER. It fails where a script throws or the
console has an error, where a page asks for anything but itself, where it is wider than its window, where the slider
does not redraw the picture, or where a picture has no name. Talks to the browser through a pipe: no port, no library.
"""
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile

WIDTHS = {1280: 900, 768: 1024, 390: 844}


class Browser:
    """Chromium behind --remote-debugging-pipe: JSON in both directions, a zero byte after each."""

    def __init__(self, program, profile):
        from_us, to_it = os.pipe()
        from_it, to_us = os.pipe()
        # The browser reads descriptor 3 and writes descriptor 4.
        keeper = [os.dup2(from_us, 30), os.dup2(to_us, 31)]
        line = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                "--no-first-run", "--disable-extensions", "--disable-background-networking",
                "--disable-component-update", "--disable-sync", "--user-data-dir=" + profile,
                "--remote-debugging-pipe", "about:blank"]
        shell = ["bash", "-c", 'exec "$0" "$@" 3<&30 4>&31 30<&- 31>&-']
        self.process = subprocess.Popen(shell + line, pass_fds=keeper, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        for descriptor in [from_us, to_us] + keeper:
            os.close(descriptor)
        self.to_it, self.from_it = to_it, os.fdopen(from_it, "rb")
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def read(self):
        while b"\0" not in self.rest:
            part = self.from_it.read1(1 << 20)
            if not part:
                raise SystemExit("the browser has gone")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to_it, data):]
        while True:
            answer = self.read()
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise SystemExit(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def wait(self, event):
        while not any(e.get("method") == event for e in self.events):
            self.events.append(self.read())

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise SystemExit(f"{expression}: {answer['exceptionDetails']['text']}")
        return answer["result"].get("value")

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(60)


def found_in(events, address):
    """What a page must not do, as sentences."""
    for event in events:
        what = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            yield "a script throws: " + what["exceptionDetails"].get("exception", {}).get("description", "")
        elif event.get("method") == "Log.entryAdded" and what["entry"]["level"] == "error":
            yield "an error in the console: " + what["entry"]["text"]
        elif event.get("method") == "Network.requestWillBeSent":
            request = what["request"]["url"]
            if request != address and not request.startswith("data:"):
                yield "it asks for " + request


# The slider: each of its places draws rows, and says which K it is; the last one is the chosen K again.
TRY_SLIDER = """(() => {
  const slider = document.getElementById("k"), shown = document.getElementById("k-shown"), drawn = [];
  const numbers = JSON.parse(document.getElementById("numbers").textContent);
  const before = document.getElementById("rows").innerHTML.replace(/\\s+(?=<)|\\s+$/g, "");
  const places = numbers.models.map((_, i) => i).concat([numbers.best]);
  if (numbers.models.length < 2) return document.querySelector(".slider").hidden ? "" : "a slider over one K";
  for (const place of places) {
    slider.value = place;
    slider.dispatchEvent(new Event("input"));
    const k = numbers.models[place].k, paths = document.querySelectorAll("#rows path").length;
    if (!shown.textContent.startsWith("K = " + k)) return "the slider says " + shown.textContent + " at K = " + k;
    if (paths < 1 || paths > k) return paths + " clusters are drawn at K = " + k;
    drawn.push(document.getElementById("rows").innerHTML);
  }
  if (new Set(drawn).size < 2) return "the slider draws the same for each K";
  return drawn[drawn.length - 1] === drawn[numbers.best] ? "" : "going back draws something else";
})()"""

NAMELESS = """(() => {
  let count = 0;
  for (const plot of document.querySelectorAll("svg.plot"))
    for (const word of ["title", "desc"])
      count += !(plot.querySelector(word) && plot.querySelector(word).textContent);
  return count;
})()"""

# A wide table scrolls in its own box: what is outside of any such box must not be cut.
CUT = """(() => {
  const names = [], edge = document.documentElement.clientWidth + 1;
  for (const e of document.querySelectorAll("main *, header *"))
    if (!e.closest(".wide, svg, .skip, .shapes") && e.getBoundingClientRect().right > edge)
      names.push(e.tagName + "." + e.className);
  return names.join(" ");
})()"""


def look(browser, path, folder):
    """All sentences about one file."""
    address = path.resolve().as_uri()
    found = []
    for scheme in ("light", "dark"):
        for width, height in WIDTHS.items():
            browser.events = []
            browser.call("Emulation.setEmulatedMedia", media="screen",
                         features=[{"name": "prefers-color-scheme", "value": scheme}])
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                         mobile=width < 500)
            browser.call("Page.navigate", url=address)
            browser.wait("Page.loadEventFired")
            inner = browser.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
            if inner[0] > inner[1]:
                found.append(f"{width} pixels: its content is {inner[0]} wide")
            cut = browser.evaluate(CUT)
            if cut:
                found.append(f"{width} pixels: beyond the edge: {cut}")
            shot = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
            (folder / f"{path.stem}-{width}-{scheme}.png").write_bytes(base64.b64decode(shot["data"]))
            trouble = browser.evaluate(TRY_SLIDER)
            if trouble:
                found.append(f"{width} pixels: {trouble}")
            nameless = browser.evaluate(NAMELESS)
            if nameless:
                found.append(f"{nameless} pictures have no name or no description")
            found += found_in(browser.events, address)
    browser.call("Emulation.clearDeviceMetricsOverride")
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    printed = browser.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
    (folder / f"{path.stem}.pdf").write_bytes(base64.b64decode(printed["data"]))
    return sorted(set(found))


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    folder = pathlib.Path(sys.argv[2])
    bad = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(sys.argv[1], profile)
        for name in sys.argv[3:]:
            sentences = look(browser, pathlib.Path(name), folder)
            for sentence in sentences:
                print(f"{name}: {sentence}")
            print(f"{name}: {len(sentences)} findings")
            bad += len(sentences)
        browser.close()
    raise SystemExit(bad > 0)


if __name__ == "__main__":
    main()
