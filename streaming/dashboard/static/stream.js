// The stream of changes. As a shared worker it is one for all tabs of a browser, because a browser
// opens few connections to a host; the name of the worker is the address of the stream. Tabs send
// "watch" and "leave"; they get the time of each change, "lost" if the server is away, and "refused"
// if they have to poll. A browser without shared workers opens a stream per tab.
"use strict";

const FIRST_WITHIN_MS = 5000;

class Stream {
  constructor(address, tell) {
    this.address = address;
    this.tell = tell;
    this.source = null;
    this.last = null;
  }

  open() {
    if (this.source !== null) {
      if (this.last !== null) this.tell(this.last);
      return;
    }
    this.source = new EventSource(this.address);
    // A proxy that collects the events makes them useless.
    this.timer = setTimeout(() => this.refuse(), FIRST_WITHIN_MS);
    this.source.onmessage = ({ data }) => {
      clearTimeout(this.timer);
      this.last = data;
      this.tell(data);
    };
    this.source.onerror = () => {
      if (this.source.readyState === EventSource.CLOSED) this.refuse();
      else this.tell("lost");
    };
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = this.last = null;
  }

  refuse() {
    this.close();
    this.tell("refused");
  }
}

function sharedStream() {
  const ports = new Set();
  const stream = new Stream(self.name, (message) => ports.forEach((port) => port.postMessage(message)));
  self.addEventListener("connect", ({ ports: [port] }) => {
    port.onmessage = ({ data }) => {
      if (data === "watch") ports.add(port);
      else ports.delete(port);
      if (ports.size === 0) stream.close();
      else if (data === "watch") stream.open();
    };
  });
}

// Something that takes "watch" and "leave", and calls `tell` with the messages of the stream.
function connectStream(address, tell) {
  if (window.SharedWorker) {
    const own = document.querySelector("script[src*='/stream.js']");
    const { port } = new SharedWorker(own.src, { name: address });
    port.onmessage = ({ data }) => tell(data);
    return port;
  }
  const stream = new Stream(address, tell);
  return { postMessage: (message) => (message === "watch" ? stream.open() : stream.close()) };
}

if (typeof SharedWorkerGlobalScope !== "undefined") sharedStream();
