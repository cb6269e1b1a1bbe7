/**
 * The types of deno-redis that the README's snippets use, for machines that cannot load it. Nothing
 * runs against this.
 *
 * @module
 */

/** A connection, as far as the snippets go. */
export interface Redis {
  sendCommand(command: string, args?: (string | number)[]): Promise<unknown>;
  close(): void;
}

/** Connects, in the real package. */
export function connect(_options: { hostname: string; port?: number | string }): Promise<Redis> {
  throw new Error("This is a stand-in for type checks: load the real deno-redis");
}
