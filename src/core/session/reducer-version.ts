// Written by `npm run docs`: changes with any file of the reducers. A snapshot of another version is not used.
export const REDUCER_VERSION = 'a4ed1751944d248c';
