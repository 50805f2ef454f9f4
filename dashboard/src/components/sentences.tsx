// Sentences of the service: their times are in the person's time zone, with UTC for pointer and screen reader.

import { partsOf } from "../format/times-in-text";

export function Sentence({ text }: { text: string }) {
  return (
    <bdi>
      {partsOf(text).map((part, place) =>
        typeof part === "string" ? (
          part
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a sentence do not move.
          <time key={place} dateTime={part.iso} title={part.utc}>
            {part.text}
          </time>
        ),
      )}
    </bdi>
  );
}

/** One below the other. */
export function Sentences({ lines }: { lines: readonly string[] }) {
  return lines.map((line) => (
    <p key={line}>
      <Sentence text={line} />
    </p>
  ));
}
