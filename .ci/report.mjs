/**
 * What a JSON report of Vitest says of the tests that failed. A file that failed as a whole counts as one test, `(file)`.
 */
import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';

/** The report at `path`, or null where the run ended before it wrote one. */
export function readReport(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : null;
}

/**
 * Each failed test of a report: its file, its full name and the first line of its error. A file whose process was ended in the
 * middle has tests that are `pending`.
 */
export function failuresOf(report) {
  const cutOff = [{ fullName: '(file)', failureMessages: ['its process ended before its tests did'] }];
  return report.testResults
    .filter(({ status, assertionResults }) => status === 'failed' || assertionResults.some(isPending))
    .flatMap(({ name, status, message, assertionResults }) => {
      const failed = assertionResults.filter(({ status }) => status === 'failed');
      const whole = status === 'failed' ? [{ fullName: '(file)', failureMessages: [message] }] : cutOff;
      const tests = failed.length > 0 ? failed : whole;
      const file = relative(process.cwd(), name);
      return tests.map(({ fullName, failureMessages }) => ({
        file,
        name: fullName,
        error: firstLine(failureMessages[0]),
      }));
    });
}

const isPending = ({ status }) => status === 'pending';

const firstLine = (text) =>
  (text ?? '')
    .replace(/\u001b\[[0-9;]*m/g, '')
    .split('\n')[0]
    .slice(0, 200);
