/**
 * An instance of `examples/lambda.ts`: takes events from the Runtime API until its input ends.
 *
 * @module
 */
import process from "node:process";
import { handler } from "../../../examples/lambda.ts";
import { inputEnd, print, scriptArgument } from "../../runtime/processes.ts";
import { runtimeLoop } from "../../http/lambda_runtime.ts";

const { url } = scriptArgument<{ url: string }>();
const stop = new AbortController();
const loop = runtimeLoop(url, handler, stop.signal);
print(`${JSON.stringify({ isReady: true })}\n`);
await inputEnd();
stop.abort();
await loop;
process.exit(0); // the example never closes its connection
