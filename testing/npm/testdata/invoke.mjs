// deno-lint-ignore-file no-console -- this is a script
// Invokes a bundled function many times at once, as one instance each. Prints the fencing tokens.
const [bundle, counter, invocations] = process.argv.slice(2);
const { handler, close } = await import(bundle);
const context = { getRemainingTimeInMillis: () => 600_000 };
const results = await Promise.all(
  Array.from({ length: Number(invocations) }, () => handler({ counter }, context)),
);
await close();
console.log(JSON.stringify(results.map(({ token }) => token)));
