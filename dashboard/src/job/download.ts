// Saves text as a file, in parts: a browser may keep these on disk.

export function save(name: string, parts: BlobPart[]): void {
  const address = URL.createObjectURL(new Blob(parts, { type: "text/plain;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The browser has the file once it has begun to save it.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
