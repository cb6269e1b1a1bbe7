import { snippetSuite } from "../../testing/docs/snippet_suite.ts";

await snippetSuite("none", {});
