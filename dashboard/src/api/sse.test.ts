import { describe, expect, test } from "vitest";
import { EventParser, serverEvents } from "./sse";

const text = 'id: a-1\nevent: change\ndata: {"x":\ndata: 1}\n\n: a comment\n\nevent: heartbeat\r\ndata:{}\r\n\r\n';
const events = [
  { id: "a-1", event: "change", data: '{"x":\n1}' },
  { id: "a-1", event: "heartbeat", data: "{}" },
];

describe("server-sent events", () => {
  test("are the same in pieces of any size", () => {
    for (let size = 1; size <= text.length; size++) {
      const parser = new EventParser();
      const seen = [];
      for (let at = 0; at < text.length; at += size) seen.push(...parser.push(text.slice(at, at + size)));
      expect(seen).toEqual(events);
    }
  });

  test("keep characters whole that arrive in two pieces", async () => {
    const bytes = new TextEncoder().encode("data: größer 🚀\n\n");
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });
    const seen = [];
    for await (const event of serverEvents(body)) seen.push(event.data);
    expect(seen).toEqual(["größer 🚀"]);
  });

  test("that a broken stream leaves incomplete are dropped", () => {
    expect(new EventParser().push("data: half")).toEqual([]);
  });
});
