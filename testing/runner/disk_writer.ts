/**
 * A process that writes to a file and syncs it, again and again, until it is killed. Its argument is the
 * folder of the file.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { fsyncSync, openSync, writeSync } from "node:fs";
import { scriptArgument } from "../runtime/processes.ts";

const PART = Buffer.alloc(1024 * 1024, "holdfast");
const PARTS = 64;

const file = openSync(`${scriptArgument<string>()}/written`, "w", 0o600);
for (let i = 0;; i = (i + 1) % PARTS) {
  writeSync(file, PART, 0, PART.length, i * PART.length);
  fsyncSync(file);
}
