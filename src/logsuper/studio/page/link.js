// The connection to the server: messages are JSON, or a header as JSON with arrays behind it.

export class Link extends EventTarget {
  constructor() {
    super();
    const address = new URL("tab", location.href);
    address.protocol = "ws:";
    this.tab = null;
    this.socket = new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = (event) => this.#hear(event.data);
    this.socket.onclose = (event) => this.#tell("closed", { reason: event.reason });
  }

  get open() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  say(message) {
    if (this.open) this.socket.send(typeof message === "object" && !ArrayBuffer.isView(message)
      ? JSON.stringify(message) : message);
  }

  // Send a file; the answer comes as a message.
  async upload(file) {
    const answer = await fetch(`image/${this.tab}`, {
      method: "POST", body: file, headers: { "x-name": encodeURIComponent(file.name) },
    });
    if (!answer.ok) throw new Error((await answer.text()).trim());
  }

  async fetchExport(kind) {
    const answer = await fetch(`export/${this.tab}/${kind}`);
    if (!answer.ok) throw new Error((await answer.text()).trim());
    return answer.blob();
  }

  #hear(data) {
    if (typeof data === "string") {
      const message = JSON.parse(data);
      if (message.is === "hello") this.tab = message.tab;
      this.#tell(message.is, message);
      return;
    }
    const length = new DataView(data).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
    this.#tell(header.is, { ...header, data, offset: 4 + length });
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
