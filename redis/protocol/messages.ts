export const GRANT_MESSAGE = "grant";
export const FREE_MESSAGE = "free";
export const STOLEN_MESSAGE = "stolen";

/** A message to one waiter or holder of this process. */
export type InboxMessage =
  | {
    /** A waiter was granted the lock, for a claim. */
    readonly kind: "grant";
    readonly lockKey: string;
    readonly value: string;
    /** When the lock was granted, in ms of the server's clock. */
    readonly serverMs: number;
    readonly claimMs: number;
    readonly fencingToken: bigint;
  }
  | { readonly kind: "free" | "stolen"; readonly lockKey: string; readonly value: string };

/**
 * Decodes a message of an inbox: a first line of words, the owner value, the lock key. Returns `null` for any other
 * text, as anybody may publish on a channel. Ignores further words in the first line: a later version may send them.
 */
export function decodeMessage(text: string): InboxMessage | null {
  // No JSON, no split(): in a process that just woke, they cost as much as the rest of the wake-up.
  const headEnd = text.indexOf("\n");
  const valueEnd = text.indexOf("\n", headEnd + 1);
  if (valueEnd === -1) return null;
  const value = text.slice(headEnd + 1, valueEnd);
  const lockKey = text.slice(valueEnd + 1);
  const kindEnd = wordEnd(text, 0, headEnd);
  switch (text.slice(0, kindEnd)) {
    case GRANT_MESSAGE: {
      const tokenEnd = wordEnd(text, kindEnd + 1, headEnd);
      const timeEnd = wordEnd(text, tokenEnd + 1, headEnd);
      const token = numberIn(text, kindEnd + 1, tokenEnd);
      const serverMs = numberIn(text, tokenEnd + 1, timeEnd);
      const claimMs = numberIn(text, timeEnd + 1, wordEnd(text, timeEnd + 1, headEnd));
      if (!Number.isSafeInteger(token) || token < 1) return null;
      if (!Number.isFinite(serverMs) || !Number.isFinite(claimMs)) return null;
      return { kind: "grant", lockKey, value, serverMs, claimMs, fencingToken: BigInt(token) };
    }
    case FREE_MESSAGE:
      return { kind: "free", lockKey, value };
    case STOLEN_MESSAGE:
      return { kind: "stolen", lockKey, value };
    default:
      return null;
  }
}

function wordEnd(text: string, start: number, lineEnd: number): number {
  const end = text.indexOf(" ", start);
  return end === -1 || end > lineEnd ? lineEnd : end;
}

function numberIn(text: string, start: number, end: number): number {
  return start < end ? Number(text.slice(start, end)) : NaN;
}
