import { listening, resultsAt, YEARS } from './site.ts';

/** What OneTrust puts over a page after it has loaded: an overlay that catches all clicks, and a banner. */
const BANNER = `<div id="onetrust-consent-sdk"><div class="onetrust-pc-dark-filter" style="position:fixed;inset:0;background:#0008"></div>
<div id="onetrust-banner-sdk" role="region" aria-label="Cookie banner" style="position:fixed;bottom:0;left:0;right:0;background:white;padding:1em">
<p>We value your privacy. We and our 812 partners store information on your device.</p>
<button id="onetrust-pc-btn-handler">Cookie settings</button>
<button id="onetrust-reject-all-handler" onclick="consent('refused')">Reject All</button>
<button id="onetrust-accept-btn-handler" onclick="consent('accepted')">Accept All Cookies</button></div></div>`;

/** A list made by a script, which `web_fetch` cannot see. */
const PAGE = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Investor relations</title></head><body>
<h1>Annual results</h1><ul id="reports"></ul>
<script>
document.getElementById('reports').innerHTML = ${JSON.stringify(YEARS)}
  .map((year) => '<li><a href="/reports/' + year + '.html">Results ' + year + '</a></li>').join('');
const consent = (choice) => { document.cookie = 'consent=' + choice; document.getElementById('onetrust-consent-sdk').remove(); };
addEventListener('load', () => setTimeout(() => document.body.insertAdjacentHTML('beforeend', ${JSON.stringify(BANNER)}), 200));
</script></body></html>
`;

/** A company's site with reports to download once its cookie banner was answered. `consents`: the answers. */
export async function startInvestorSite(): Promise<{ url: string; consents: Set<string>; close(): void }> {
  const consents = new Set<string>();
  const site = await listening(({ url = '', headers }, response) => {
    const [, choice] = /\bconsent=(\w+)/.exec(headers.cookie ?? '') ?? [];
    const [report, isPage] = [resultsAt(url), url === '/'];
    if (choice !== undefined) consents.add(choice);
    const status = isPage ? 200 : report === undefined ? 404 : choice === undefined ? 403 : 200;
    const isFile = status === 200 && !isPage;
    response.writeHead(status, {
      'content-type': 'text/html; charset=utf-8',
      ...(isFile && { 'content-disposition': 'attachment' }),
    });
    response.end(isPage ? PAGE : isFile ? report : 'Answer the cookie banner first.\n');
  });
  return { ...site, consents };
}
