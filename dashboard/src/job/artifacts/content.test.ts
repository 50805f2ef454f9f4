import { describe, expect, test } from "vitest";
import { contentOf } from "./content";

const bytes = (...values: number[]) => new Uint8Array(values);
const utf8 = (text: string) => new TextEncoder().encode(text);

describe("the content of a file", () => {
  test("is an image by its first bytes only", () => {
    expect(contentOf(bytes(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0))).toEqual({
      kind: "image",
      type: "image/png",
    });
    expect(contentOf(bytes(0xff, 0xd8, 0xff, 0xe0))).toEqual({ kind: "image", type: "image/jpeg" });
    expect(contentOf(utf8("RIFF....WEBP")).kind).toBe("image");
    expect(contentOf(utf8("<svg onload=alert(1)>"))).toEqual({ kind: "text", text: "<svg onload=alert(1)>" });
  });

  test("is a text whose last character is cut off, but no bytes", () => {
    expect(contentOf(utf8("größe").subarray(0, 4))).toEqual({ kind: "text", text: "grö" });
    expect(contentOf(utf8("gr").subarray(0, 0))).toEqual({ kind: "text", text: "" });
    expect(contentOf(bytes(0x41, 0, 0x42)).kind).toBe("binary");
    expect(contentOf(bytes(0xc0, 0xc1, 0xf5, 0xff, 0x41)).kind).toBe("binary");
  });
});
