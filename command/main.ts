#!/usr/bin/env node
/**
 * `holdfast`: runs a command under a lock, and shows locks. `docs/open.md` has its use.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import process from "node:process";
import { runCommandLine } from "./command_line.ts";

const code = runCommandLine(process.argv.slice(2), {
  url: process.env.HOLDFAST_URL,
  say: (text) => console.error(text),
  print: (text) => console.log(text),
});
code.then((code) => process.exitCode = code);
