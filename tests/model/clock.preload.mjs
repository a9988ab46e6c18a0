// Loaded into a daemon under test alone (`--import`): moves its wall clock by the milliseconds in the file AGENTD_TEST_CLOCK names.
import { readFileSync } from 'node:fs';

const RealDate = Date;
const LOOK_EVERY_MS = 10;
let shift = 0;
let looked = Number.NEGATIVE_INFINITY;

function now() {
  if (performance.now() - looked > LOOK_EVERY_MS) {
    looked = performance.now();
    try {
      shift = Number(readFileSync(process.env.AGENTD_TEST_CLOCK, 'utf8')) || 0;
    } catch {
      // Between two writes of the file the clock stays as it was.
    }
  }
  return RealDate.now() + shift;
}

globalThis.Date = class extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(now());
    else super(...args);
  }
  static now() {
    return now();
  }
};
