// Keeps a page up to date: the server says when it is out of date, and the parts that are marked
// as live are taken from a new rendering of it. One stream a page, none while the page is hidden.

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30000;
const SHORTEST_REST = 200;

export class Live {
  constructor(prefix, topic, status) {
    this.prefix = prefix;
    this.topic = topic;
    this.status = status;
    this.map = null;
    this.stream = null;
    this.pause = FIRST_PAUSE;
    this.timer = 0;
    this.busy = false;
    this.again = false;
    document.addEventListener("visibilitychange", () => this.onVisibility());
    window.addEventListener("pagehide", () => this.disconnect());
    window.addEventListener("pageshow", (event) => event.persisted && this.onVisibility());
  }

  connect() {
    this.disconnect();
    if (document.hidden) return;
    const query = new URLSearchParams({ topic: this.topic });
    if (this.map) for (const [name, value] of Object.entries(this.map.position())) query.set(name, value);
    this.stream = new EventSource(`${this.prefix}events?${query}`);
    this.stream.addEventListener("open", () => (this.pause = FIRST_PAUSE));
    // A stream alone proves nothing: its server may have lost the cluster.
    this.stream.addEventListener("state", (event) => {
      if (JSON.parse(event.data).missing) this.say("lost", "not live");
      else this.say("on", "live");
    });
    this.stream.addEventListener("page", () => this.refresh());
    this.stream.addEventListener("map", (event) => this.map?.update(JSON.parse(event.data)));
    this.stream.addEventListener("error", () => this.onLoss());
  }

  disconnect() {
    clearTimeout(this.timer);
    this.stream?.close();
    this.stream = null;
  }

  onLoss() {
    this.disconnect();
    this.say("lost", "reconnecting");
    this.timer = setTimeout(() => {
      this.connect();
      this.refresh();
    }, this.pause);
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }

  onVisibility() {
    if (document.hidden) {
      this.disconnect();
    } else if (!this.stream) {
      this.connect();
      this.refresh();
    }
  }

  say(state, text) {
    this.status.dataset.state = state;
    // Said aloud by screen readers whenever it is set.
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  async refresh() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    const start = performance.now();
    try {
      await renew();
    } catch {
      // The stream notices too, and tries again.
    }
    // A page that takes its server long is asked for less often: a tenth of the time at most.
    const rest = Math.min(Math.max(SHORTEST_REST, 9 * (performance.now() - start)), LONGEST_PAUSE);
    setTimeout(() => {
      this.busy = false;
      if (this.again) {
        this.again = false;
        this.refresh();
      }
    }, rest);
  }
}

// Takes the live parts of the page from a new rendering.
export async function renew() {
  const address = location.href;
  const response = await fetch(address, { headers: { Accept: "text/html", "X-Numakube-Refresh": "1" } });
  if (response.redirected && new URL(response.url).pathname !== location.pathname) {
    location.reload();
    return;
  }
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  // The reader may have asked for something else meanwhile.
  if (address !== location.href) return;
  replaceLive(fresh);
  document.dispatchEvent(new Event("renewed"));
}

function replaceLive(fresh) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = fresh.getElementById(part.id);
    if (!next || next.innerHTML === part.innerHTML) continue;
    const focus = focusIn(part);
    const open = [...part.querySelectorAll("details[id][open]")].map((one) => one.id);
    const scrolled = [...part.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    part.replaceChildren(...document.importNode(next, true).childNodes);
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    part.querySelectorAll(".scroll").forEach((one, index) => (one.scrollLeft = scrolled[index] ?? 0));
    focus?.();
  }
}

function focusIn(part) {
  const active = document.activeElement;
  if (!active || !part.contains(active)) return null;
  const [attribute, value] = active.id ? ["id", active.id] : ["href", active.getAttribute("href")];
  if (!value) return null;
  return () => part.querySelector(`[${attribute}="${CSS.escape(value)}"]`)?.focus({ preventScroll: true });
}
