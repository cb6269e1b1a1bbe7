/**
 * The digest by which a steal names its victim.
 *
 * @module
 */
import { createHash } from "node:crypto";

/** The SHA-1 of an owner value in hex, as Redis computes it. */
export function sha1Of(value: string): string {
  return createHash("sha1").update(value).digest("hex");
}
