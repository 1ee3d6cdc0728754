// The box that asks whether a pod would fit: the answer is part of the page, and colours the map.
import { renew } from "./live.js";

export class WhatIf {
  constructor(form, map) {
    this.form = form;
    this.map = map;
    this.version = "";
    this.show();
    form.addEventListener("submit", (event) => this.ask(event));
    document.addEventListener("renewed", () => this.show());
  }

  async ask(event) {
    event.preventDefault();
    const address = new URL(location.href);
    const shape = this.form.elements.shape.value.trim();
    if (shape) address.searchParams.set("shape", shape);
    else address.searchParams.delete("shape");
    history.replaceState(null, "", address);
    const button = this.form.querySelector("button");
    button.disabled = true;
    document.getElementById("whatif").textContent = "The scheduler's cycles are run…";
    try {
      await renew();
    } catch {
      document.getElementById("whatif").textContent = "The server does not answer.";
    }
    button.disabled = false;
    this.map?.colourBy("fits");
  }

  // Colours the map by the answer that the page has now, if it is another one.
  async show() {
    const answer = document.getElementById("whatif-hint")?.dataset;
    const version = `${answer?.version} ${answer?.shape}`;
    if (!this.map || version === this.version) return;
    this.version = version;
    await this.map.loadFits(answer?.shape ?? "");
  }
}
