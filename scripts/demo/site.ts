import { readFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

type Year = { year: string; revenue: string; profit: string };

/** The company's published figures; the file names their source. */
const FIGURES: Year[] = readFileSync(new URL('tencent-annual.csv', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => /^\d{4},/.test(line))
  .map((line) => {
    const [year = '', revenue = '', profit = ''] = line.split(',');
    return { year, revenue, profit };
  });

export const YEARS = FIGURES.map((figures) => figures.year);

const grouped = (digits: string) => digits.replace(/\B(?=(\d{3})+$)/g, ',');

const page = ({ year, revenue, profit }: Year) => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Annual results ${year}</title></head><body>
<h1>Tencent Holdings Limited: results for the year ended 31 December ${year}</h1>
<table>
<tr><th></th><th>RMB million, audited</th></tr>
<tr><td>Revenues</td><td>${grouped(revenue)}</td></tr>
<tr><td>Profit attributable to equity holders of the Company</td><td>${grouped(profit)}</td></tr>
</table>
<p>Source: the company's annual results announcement for ${year}.</p>
</body></html>
`;

/** The page for a path that ends in `<year>.html`; undefined if there is none. */
export function resultsAt(path = ''): string | undefined {
  const found = FIGURES.find(({ year }) => path.endsWith(`/${year}.html`));
  return found && page(found);
}

/** A small web site with one page per year, on loopback. */
export function startSite(): Promise<{ url: string; close(): void }> {
  return listening((request, response) => {
    const results = resultsAt(request.url);
    response.writeHead(results ? 200 : 404, { 'content-type': 'text/html; charset=utf-8' });
    response.end(results ?? 'no such page\n');
  });
}

/** Starts a server on a free loopback port. */
export async function listening(answer: RequestListener): Promise<{ url: string; close(): void }> {
  const server = createServer(answer);
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}
