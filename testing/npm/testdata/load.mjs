// deno-lint-ignore-file no-console -- this is a script
// Imports the entries that it is given. Prints the exports of each as JSON.
const found = {};
for (const entry of process.argv.slice(2)) {
  found[entry] = Object.keys(await import(entry)).sort();
}
console.log(JSON.stringify(found));
