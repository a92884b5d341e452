// SPDX-License-Identifier: GPL-2.0-only
//
// Looks at a page in frames of several widths, each with everything folded and everything open, and
// writes what it found, as JSON, into the element "found".
"use strict";

const CLOSE = 1;
const errors = [];

function name(element) {
	const text = (element.textContent || "").trim().slice(0, 40);
	return `${element.tagName.toLowerCase()}.${element.getAttribute("class") || ""} "${text}"`;
}

function luminance(colour) {
	const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
	const linear = parts.map((p) => (p <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4));
	return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

function contrast(one, other) {
	const both = [luminance(one), luminance(other)].sort((a, b) => a - b);
	return (both[1] + 0.05) / (both[0] + 0.05);
}

function shown(element) {
	const box = element.getBoundingClientRect();
	return element.checkVisibility() && box.width > 0 && box.height > 0;
}

// What is wider than the page, or than the panel that it belongs to.
function overflows(view) {
	const page = view.document;
	const found = [];
	const width = page.documentElement.clientWidth;
	if (page.documentElement.scrollWidth > width)
		found.push(`the page: ${page.documentElement.scrollWidth} of ${width}`);
	for (const element of page.body.querySelectorAll("*")) {
		const room = element.closest(".panel");
		const box = element.getBoundingClientRect();
		if (!shown(element) || (element.closest(".wide") && !element.matches(".wide")))
			continue;
		const limit = room ? room.getBoundingClientRect() : { left: 0, right: width };
		if (box.right > limit.right + CLOSE || box.left < limit.left - CLOSE)
			found.push(`${name(element)}: ${box.left} to ${box.right} of ${limit.right}`);
	}
	return found;
}

// Boxes whose last column, or right edge, cannot be scrolled to.
function unreachable(view) {
	const found = [];
	for (const box of view.document.querySelectorAll(".wide")) {
		if (!shown(box))
			continue;
		box.scrollLeft = box.scrollWidth;
		const column = box.querySelector("th:last-child");
		const last = (column || box.firstElementChild).getBoundingClientRect();
		const room = box.getBoundingClientRect();
		if (last.right > room.right + CLOSE || (column && last.left < room.left - CLOSE))
			found.push(name(box));
		box.scrollLeft = 0;
	}
	return found;
}

function texts(view) {
	return [...view.document.querySelectorAll("svg text")].filter(shown);
}

function letters(view) {
	const sizes = texts(view).map((text) => {
		const scale = text.getScreenCTM().a;
		return parseFloat(view.getComputedStyle(text).fontSize) * scale;
	});
	return { count: sizes.length, least: Math.min(...sizes) };
}

// Labels of one picture that lie over each other.
function collisions(view) {
	const found = [];
	for (const svg of view.document.querySelectorAll(".plot svg")) {
		const own = [...svg.querySelectorAll("text")].filter(shown);
		const boxes = own.map((text) => text.getBoundingClientRect());
		for (let i = 0; i < own.length; i++)
			for (let j = 0; j < i; j++) {
				const [a, b] = [boxes[i], boxes[j]];
				const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
				const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
				// Lines of text may touch, but not cover each other.
				if (across > CLOSE && down > 3)
					found.push(`${name(own[i])} and ${name(own[j])}`);
			}
	}
	return found;
}

// Figures that nothing names: each group of them has its label beside it.
function unlabelled(view) {
	const groups = [...view.document.querySelectorAll(".plot svg g")];
	return groups
		.filter((group) => shown(group) && group.querySelectorAll("circle").length > 1)
		.filter((group) => !group.querySelector("text"))
		.map((group) => name(group.closest(".panel")));
}

function faint(view) {
	const paper = view.getComputedStyle(view.document.body).backgroundColor;
	const read = [...texts(view), ...view.document.querySelectorAll("p, li, td, th, summary, h2")];
	return read
		.filter(shown)
		.map((each) => [each, view.getComputedStyle(each)])
		.map(([each, style]) => [each, each.matches("text") ? style.fill : style.color])
		.filter(([, colour]) => contrast(colour, paper) < 4.5)
		.map(([each, colour]) => `${name(each)}: ${colour} on ${paper}`);
}

function look(view) {
	return {
		width: view.innerWidth,
		height: view.document.documentElement.scrollHeight,
		paper: view.getComputedStyle(view.document.body).backgroundColor,
		overflows: overflows(view),
		unreachable: unreachable(view),
		letters: letters(view),
		labels: texts(view).map((text) => text.textContent),
		collisions: collisions(view),
		unlabelled: unlabelled(view),
		faint: faint(view),
	};
}

window.addEventListener("error", (event) => errors.push(event.message));
window.addEventListener("load", () => {
	const looks = [];
	for (const frame of document.querySelectorAll("iframe")) {
		const view = frame.contentWindow;
		looks.push({ open: false, ...look(view) });
		for (const details of view.document.querySelectorAll("details"))
			details.open = true;
		looks.push({ open: true, ...look(view) });
	}
	document.getElementById("found").textContent = JSON.stringify({ looks, errors });
});
