// What a file of a job is, by its first bytes: its name says nothing. Only what is text or one of few formats of images is
// shown, and neither ever becomes markup.

/** The most bytes of a text, and of an image, that are shown. */
export const mostText = 64 << 10;
export const mostImage = 5 << 20;

export type Content = { kind: "text"; text: string } | { kind: "image"; type: string } | { kind: "binary" };

const images: [string, number[]][] = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
];

/** What begins with these bytes. The last character of a text may be cut off. */
export function contentOf(bytes: Uint8Array): Content {
  for (const [type, magic] of images) {
    if (magic.every((byte, at) => bytes[at] === byte)) return { kind: "image", type };
  }
  const ascii = (from: number, to: number) => String.fromCharCode(...bytes.subarray(from, to));
  if (ascii(0, 4) === "RIFF" && ascii(8, 12) === "WEBP") return { kind: "image", type: "image/webp" };
  if (bytes.includes(0)) return { kind: "binary" };
  const text = new TextDecoder().decode(bytes, { stream: true });
  const strange = text.match(/\ufffd/g)?.length ?? 0;
  return strange > text.length / 20 ? { kind: "binary" } : { kind: "text", text };
}
