/**
 * An instance of `examples/lambda.ts`: takes events from the Runtime API until its input ends.
 *
 * @module
 */
import { handler } from "../../../examples/lambda.ts";
import { runtimeLoop } from "../../http/lambda_runtime.ts";

const { url } = JSON.parse(Deno.args[0]!);
const stop = new AbortController();
const loop = runtimeLoop(url, handler, stop.signal);
await Deno.stdout.write(new TextEncoder().encode(`${JSON.stringify({ isReady: true })}\n`));
for await (const _ of Deno.stdin.readable);
stop.abort();
await loop;
Deno.exit(0); // the example's connection lives as long as the instance
