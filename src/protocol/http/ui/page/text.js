// Text for addresses and requests.

/** @param {string} text */
export const encode = (text) => encodeURIComponent(text);

/** @param {any} value */
export const json = (value) => JSON.stringify(value);
