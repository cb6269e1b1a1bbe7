// deno-lint-ignore-file no-console -- this is a script
// A program of a bundle. Its argument says where the servers are, as JSON.
import process from "node:process";
import { useAll } from "./uses.mjs";

useAll(JSON.parse(process.argv[2])).then((outcomes) => console.log(JSON.stringify(outcomes)));
