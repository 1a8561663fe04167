// JavaScript that waits for the disk in turns with work in one function.
const fs = require("fs");
function climbStairs(n) {
  let x = 1;
  for (let i = 0; i < n; i++) x = (Math.imul(x ^ (x >>> 15), 2246822519) + i) | 0;
  return x;
}
let sum = 0;
for (let i = 0; i < 150; i++) {
  sum ^= climbStairs(4e6);
  fs.fsyncSync(fs.openSync(process.argv[2], "a"));
}
console.log(sum);
