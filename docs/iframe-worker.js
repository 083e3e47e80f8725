// The search runs in a Worker, which browsers refuse to pages that are opened from the disk. There, and only there, this
// runs it in a hidden frame instead. Material's plugin `offline` would fetch such a script from the network, unless the
// site has one of this name.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = address;
      const loaded = new Promise((resolve) => (script.onload = resolve));
      inside.document.head.append(script);
      this.postMessage = (data) => loaded.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
  };
}
