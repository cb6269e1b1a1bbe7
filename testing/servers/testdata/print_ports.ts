/** Prints many ports, and keeps their block until its input ends. */
import { inputEnd, print } from "../../runtime/processes.ts";
import { freeClusterPort, freePort } from "../ports.ts";

if (import.meta.main) {
  print(`${JSON.stringify(Array.from({ length: 60 }, () => [freePort(), freeClusterPort()]))}\n`);
  await inputEnd();
}
