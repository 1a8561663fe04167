// Blobs of the page: base64 of raw deflate, which the browser inflates itself.

/** False in browsers that cannot inflate. */
export function canInflate(): boolean {
  return typeof DecompressionStream === "function";
}

export async function inflate(base64: string): Promise<Uint8Array> {
  const text = atob(base64);
  const deflated = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) deflated[at] = text.charCodeAt(at);
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reads unsigned LEB128 numbers one after the other. */
export class Numbers {
  private at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  next(): number {
    let value = 0;
    let weight = 1;
    for (;;) {
      const byte = this.bytes[this.at] ?? 0;
      this.at += 1;
      // Shifts end at 32 bits; times do not.
      value += (byte & 0x7f) * weight;
      if (byte < 0x80) return value;
      weight *= 128;
    }
  }
}
