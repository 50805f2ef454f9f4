// Reads the log that a query asks for, and holds its newest lines. Another query begins with an empty log.

import { useEffect, useMemo, useState } from "react";
import { addressOf, type Ref } from "../use-job";
import { LineBuffer } from "./buffer";
import { type LogQuery, requestOf } from "./query";
import { type ReadState, readLogs } from "./reader";

export type Log = {
  buffer: LineBuffer;
  /** Grows with every change of the buffer. */
  version: number;
  state: ReadState;
  again: () => void;
};

export function useLog(jobRef: Ref, query: LogQuery, follow: boolean, run: string): Log {
  const request = requestOf(query, follow).toString();
  const [attempt, setAttempt] = useState(0);
  const key = `${run} ${request} ${attempt}`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: another key is another log.
  const buffer = useMemo(() => new LineBuffer(), [key]);
  const [version, setVersion] = useState(0);
  const [state, setState] = useState<ReadState>({ state: "connecting" });
  useEffect(() => {
    setState({ state: "connecting" });
    const address = (cursors: readonly string[]) => {
      const parameters = new URLSearchParams(request);
      for (const cursor of cursors) parameters.append("cursor", cursor);
      return addressOf(jobRef, "logs", parameters);
    };
    return readLogs(address, {
      onLines: (lines) => {
        buffer.append(lines);
        setVersion((before) => before + 1);
      },
      onState: setState,
    });
  }, [jobRef, request, buffer]);
  return { buffer, version, state, again: () => setAttempt((before) => before + 1) };
}
