// Sentences of the service, one below the other.

export function Sentences({ lines }: { lines: readonly string[] }) {
  return lines.map((line) => (
    <p key={line}>
      <bdi>{line}</bdi>
    </p>
  ));
}
